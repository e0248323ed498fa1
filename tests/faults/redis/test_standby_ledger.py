"""Standbys of ledgers on Redis: they read continuously, never fence the owner, and check the ledger at the takeover."""

from contextlib import AsyncExitStack

import pytest

from oncegate.core.errors import LedgerDamaged, LedgerFenced
from oncegate.ledgers.redis.ledgers import RedisLedgers
from oncegate.ports import DropRanges, OpenLedger
from oncegate.testing.ledger_places import range_of
from tests.support.redis_ledger import Prefix
from tests.support.redis_server import RedisServer
from tests.support.standby_checks import CHECKS, standing_by, waiting
from tests.support.standing_by import wait_until


@pytest.fixture
def prefix(server: RedisServer) -> Prefix:
    """Without a takeover by silence, and with no witness except the entries that a standby has read."""
    return Prefix(server, None, "bare_key=yes&takeover_ms=600000")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_a_standby_keeps_its_promises(prefix: Prefix, check) -> None:
    await check(prefix)


async def test_the_entries_read_by_a_standby_do_not_vouch_for_a_stream_that_lost_them(
    prefix: Prefix, server: RedisServer
) -> None:
    async with waiting(prefix) as (followed, _, going):
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        server.run("XTRIM", prefix.key("frames"), "MINID", "2-0")
        with pytest.raises(LedgerDamaged, match="lacks its first frames"):
            await anext(followed.batches)


async def test_rows_that_a_dead_owner_left_behind_are_deleted_by_its_successor(
    prefix: Prefix, server: RedisServer
) -> None:
    async with prefix.opened() as owner:
        await owner.ledger.append([b"a"], [range_of(1, 3), range_of(2, 3)])
        following = standing_by(prefix)
        standby = await following.__aenter__()
        await standby.has_read(b"a")
        await owner.ledger.append([b"b"], [DropRanges((range_of(2, 3).range_id,))])
        await standby.has_read(b"a", b"b")
        # Its owner would delete the rows with its next append, which never comes.
        assert server.run("XLEN", prefix.key("rows")) == 2
    opened = await standby.opened()
    await opened.ledger.append([b"c"], [])
    assert server.run("XLEN", prefix.key("rows")) == 1
    await following.__aexit__(None, None, None)


async def test_a_late_elected_gateway_raises_no_fence_after_the_next_holder(
    prefix: Prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The standby sleeps after its election, before it raises the fence; another is elected and owns the ledger."""
    lead, asked = RedisLedgers._lead, list[RedisLedgers]()
    async with AsyncExitStack() as next_holder, waiting(prefix) as (followed, _, going):

        async def late(ledgers: RedisLedgers) -> None:
            asked.append(ledgers)
            await lead(ledgers)
            if asked == [ledgers]:
                opened.append(await next_holder.enter_async_context(prefix.opened()))

        opened = list[OpenLedger]()
        await going.aclose()
        await wait_until(lambda: not followed.standing())
        monkeypatch.setattr(RedisLedgers, "_lead", late)
        with pytest.raises(LedgerFenced, match="another gateway owns"):
            await anext(followed.batches)
        await opened[0].ledger.append([b"by the next"], [])
