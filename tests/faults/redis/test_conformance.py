"""A ledger on Redis keeps every promise of the port, on a real server."""

import pytest

from oncegate.testing.ledger_checks import CHECKS
from tests.support.redis_server import RedisServer
from tests.testing.places import redis_places


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_ledger_keeps_its_promises(server: RedisServer, check) -> None:
    async with redis_places(server)() as place:
        await check(place)
