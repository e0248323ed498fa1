"""Staged rows: their topics, and their deletion."""

import asyncio

import pytest

from oncegate.ledgers.kafka.partition import Partition
from oncegate.ports import DropRanges, TrimRanges
from oncegate.testing.ledger_places import BIG, chunk_of, outputs_of, publish, range_of
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_ledger import Prefix
from tests.support.kafka_proxy import DELETE_RECORDS, KafkaProxy

pytestmark = pytest.mark.slow


async def lowest(broker: Broker, topic: str, offset: int) -> None:
    """Returns once the topic begins at this offset or later."""
    async with asyncio.timeout(WAIT_S):
        while await asyncio.to_thread(broker.low, topic) < offset:
            await asyncio.to_thread(broker.committed, Partition(topic, 0))


async def test_stages_that_are_needed_no_more_go_and_those_that_wait_stay(broker: Broker) -> None:
    prefix = Prefix(broker)
    stages = f"{prefix.name}.default.stages"
    async with prefix.opened() as opened:
        for number in range(3):
            await opened.ledger.append([b"staged"], [range_of(number, 5)])
        second = broker.messages(Partition(stages, 0))[1].offset()
        await opened.ledger.append([b"dropped"], [DropRanges((range_of(0, 5).range_id, range_of(2, 5).range_id))])
        await lowest(broker, stages, second)
        assert broker.low(stages) == second
    async with prefix.opened() as opened:
        await opened.ledger.append([b"committed"], [publish(0, 1)])
        assert await outputs_of(opened).fetch("t", 0, 0, 9, BIG) == [chunk_of(0, range_of(1, 5))]


async def test_a_stage_that_is_given_up_while_others_are_deleted_goes_with_the_next_deletion(
    broker: Broker, proxy: KafkaProxy
) -> None:
    prefix = Prefix(broker)
    stages = f"{prefix.name}.default.stages"
    async with prefix.opened(proxied=True) as opened:
        for number in range(3):
            await opened.ledger.append([b"staged"], [range_of(number, 5)])
        _, second, last = (record.offset() for record in broker.messages(Partition(stages, 0)))
        proxy.hold(DELETE_RECORDS)
        await opened.ledger.append([b"dropped"], [DropRanges((range_of(0, 5).range_id,))])
        deleting = asyncio.create_task(opened.ledger.keep_up())  # type: ignore[attr-defined]
        await proxy.held.wait()
        await opened.ledger.append([b"dropped"], [DropRanges((range_of(1, 5).range_id,))])
        proxy.release()
        await deleting
        await opened.ledger.keep_up()  # type: ignore[attr-defined]
        assert second < broker.low(stages) <= last


async def test_rows_published_as_they_are_written_are_kept_apart(broker: Broker) -> None:
    """Archives are kept for long, and would prevent the deletion of every later stage."""
    prefix = Prefix(broker)
    async with prefix.opened() as opened:
        await opened.ledger.append([b"archived"], [range_of(1, 5), publish(0, 1)])
        await opened.ledger.append([b"both"], [range_of(2, 5), range_of(3, 4), publish(5, 2)])
        await opened.ledger.append([b"late"], [publish(10, 3)])
        chunks = [chunk_of(0, range_of(1, 5)), chunk_of(5, range_of(2, 5)), chunk_of(10, range_of(3, 4))]
        assert await outputs_of(opened).fetch("t", 0, 0, 99, BIG) == chunks
        await opened.ledger.append([b"trimmed"], [TrimRanges("t", 0, 10)])
    assert len(broker.committed(Partition(f"{prefix.name}.default.outputs", 0))) == 2
    assert len(broker.committed(Partition(f"{prefix.name}.default.stages", 0))) == 1
