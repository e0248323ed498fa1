"""A connection to a real Redis server: the answer to an abandoned command is never taken for that of a later one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncegate.clock import sleep_s
from oncegate.ledgers.redis.address import parse_address
from oncegate.ledgers.redis.connection import Link, Lost, Refused
from oncegate.testing.clock import turned_loop
from tests.support.redis_server import RedisServer

pytestmark = pytest.mark.turned
# The server answers it, and the commands sent after it, only after a push to the key.
WAITS = ("BLPOP", "nobody-pushes-here", "0")


@pytest.fixture
async def link(server: RedisServer) -> AsyncIterator[Link]:
    link = Link(parse_address(f"//{server.address}/link?bare_key=yes&no_witness=yes&reply_ms=1000"))
    assert await link.call("ECHO", "first") == b"first"
    yield link
    await link.close()


async def blocked(server: RedisServer, count: int) -> None:
    """Returns once `count` connections wait for a push."""
    while server.run("INFO", "clients")["blocked_clients"] != count:
        await sleep_s(0)


async def test_a_command_that_is_not_answered_in_time_answers_no_later_one(link: Link, server: RedisServer) -> None:
    asking = asyncio.create_task(link.call(*WAITS))
    await blocked(server, 1)
    await turned_loop().turn(0.75)
    assert not asking.done()
    await turned_loop().turn(0.25)
    with pytest.raises(Lost, match="no answer within reply_ms"):
        await asking
    assert not link.is_connected
    await blocked(server, 0)
    assert await link.call("ECHO", "mine") == b"mine"
    assert link.connections == 2


async def test_a_command_whose_caller_goes_away_answers_no_later_one(link: Link, server: RedisServer) -> None:
    asking = asyncio.create_task(link.call(*WAITS))
    await blocked(server, 1)
    asking.cancel()
    await asyncio.wait([asking])
    assert not link.is_connected
    await blocked(server, 0)
    assert await link.call("ECHO", "mine") == b"mine"
    assert link.connections == 2


async def test_a_command_that_the_server_refuses_costs_no_connection(link: Link) -> None:
    with pytest.raises(Refused):
        await link.call("NO-SUCH-COMMAND")
    assert await link.call("ECHO", "mine") == b"mine"
    assert link.connections == 1
