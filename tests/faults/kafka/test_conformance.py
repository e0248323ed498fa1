"""A ledger on Kafka keeps every promise of the port, on a real broker."""

import pytest

from oncegate.testing.ledger_checks import CHECKS
from tests.support.kafka_broker import Broker
from tests.testing.places import kafka_places

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_ledger_keeps_its_promises(broker: Broker, check) -> None:
    async with kafka_places(broker.cluster.bootstrap)() as place:
        await check(place)
