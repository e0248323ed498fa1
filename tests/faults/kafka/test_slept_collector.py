"""Owners that sleep during a compaction, are superseded, and wake: they then delete only records that their own commit
replaced.

Each has compacted before, so that a deletion that comes too early would remove frames and pieces of a snapshot alike.
"""

import asyncio
from contextlib import suppress

import pytest

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ports import OpenLedger
from oncegate.testing.ledger_places import snapshot_of
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix, entries
from tests.support.kafka_proxy import DELETE_RECORDS, END_TXN, KafkaProxy

pytestmark = pytest.mark.slow


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


async def keep_up(opened: OpenLedger) -> None:
    """Deletes the records that a compaction has replaced, as the upkeep does."""
    assert isinstance(opened.ledger, KafkaLedger)
    await opened.ledger.keep_up()


async def collected_before(opened: OpenLedger) -> None:
    """Leaves a snapshot, and an entry after it that the next compaction replaces together with it."""
    await opened.ledger.append([b"a"], [])
    await opened.ledger.compact(1, snapshot_of(b"first"))
    await keep_up(opened)
    await opened.ledger.append([b"b"], [])


async def collect(opened: OpenLedger) -> None:
    with suppress(LedgerDown, LedgerFenced, LedgerFull):
        await opened.ledger.compact(2, snapshot_of(b"second"))
        await keep_up(opened)


def lows(prefix: Prefix) -> tuple[int, int]:
    return prefix.broker.low(prefix.frames), prefix.broker.low(prefix.states)


@pytest.mark.parametrize("collects", [False, True], ids=["that goes on", "that collects too"])
async def test_a_deletion_after_a_successor_removes_nothing_of_its_records(
    prefix: Prefix, proxy: KafkaProxy, collects: bool
) -> None:
    """The deletion waits in the proxy, as it would if the owner's process were stopped before sending it."""
    async with prefix.opened(proxied=True) as older:
        await collected_before(older)
        proxy.hold(DELETE_RECORDS)
        collecting = asyncio.create_task(collect(older))
        await proxy.held.wait()
        async with prefix.opened() as newer:
            await newer.ledger.append([b"c"], [])
            if collects:
                await newer.ledger.compact(3, snapshot_of(b"third"))
                await keep_up(newer)
            there = await entries(newer.ledger)
            proxy.release()
            await collecting
            await newer.ledger.append([b"d"], [])
    async with prefix.opened() as again:
        assert await entries(again.ledger) == [*there, b"d"]


async def test_nothing_is_deleted_before_the_frame_that_replaces_it_is_committed(
    prefix: Prefix, proxy: KafkaProxy
) -> None:
    """The upkeep continues in the meantime; the owner is superseded before its commit arrives."""
    async with prefix.opened(proxied=True) as older:
        await collected_before(older)
        before = lows(prefix)
        # The first end is that of the snapshot, whose catalog is empty; the second of the frame that names it.
        proxy.hold(END_TXN, after=1)
        collecting = asyncio.create_task(collect(older))
        await proxy.held.wait()
        await keep_up(older)
        assert lows(prefix) == before
        async with prefix.opened() as newer:
            proxy.release()
            await collecting
            await keep_up(older)
            await newer.ledger.append([b"c"], [])
    async with prefix.opened() as again:
        assert await entries(again.ledger) == [b"first", b"b", b"c"]
    assert lows(prefix) == before
