"""Rows in users' topics on a real broker: read by both clients, and committed in one transaction with their frame."""

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer

from oncegate.core.errors import BadRequest, MissingStage, NotFound, SchemaMismatch, TooLarge
from oncegate.ledgers.kafka.compression import Compression, compressed
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import Field, Records, encode
from oncegate.ledgers.kafka.rows.stream import Piece, Target
from oncegate.ledgers.kafka.transactions.ends import NotWritten
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Deadlines
from oncegate.ports import Origin
from oncegate_spark import RecordCheck
from tests.support.kafka_broker import WAIT_S, Broker
from tests.support.kafka_rows import Written, check_rows, commit_rows, pieces_of

pytestmark = pytest.mark.slow
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
PATIENT = Deadlines(start_ms=60_000, send_ms=60_000, commit_ms=60_000, transaction_ms=150_000)
NOW_MS = 1_795_000_000_000
_names = count()


@asynccontextmanager
async def started(broker: Broker, transactional_id: str | None = None, **more: Any) -> AsyncIterator[Guard]:
    name = transactional_id or f"rows-{next(_names)}"
    guard = Guard({"bootstrap_servers": broker.cluster.bootstrap}, name, PATIENT, **more)
    await guard.start()
    try:
        yield guard
    finally:
        await guard.close()


def table_of(rows: int, keys: int = 50) -> Any:
    return pa.table(
        {
            "key": [None if row % 7 == 0 else f"key-{row % keys}" for row in range(rows)],
            "value": [f'{{"row": {row}, "carrier": "UA"}}' for row in range(rows)],
            "headers": pa.array(
                [[("row", str(row).encode()), ("none", None)] * (row % 3) for row in range(rows)], HEADERS
            ),
        }
    )


def one_frame(partition: Partition, value: bytes) -> list[Batch]:
    """Returns a frame that names the rows: a record of one value."""
    one = np.ones(1, np.int64)
    none = Field(np.zeros(0, np.uint8), 0 * one, -one)
    (batch,) = encode(Records(NOW_MS * one, none, Field(np.frombuffer(value, np.uint8), 0 * one, len(value) * one)))
    return [Batch(partition, batch)]


async def by_aiokafka(broker: Broker, partition: Partition) -> list[tuple[Any, ...]]:
    """Returns the committed records of a partition, as aiokafka reads them, with checksums verified."""
    place = TopicPartition(*partition)
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.cluster.bootstrap, isolation_level="read_committed")
    await consumer.start()
    try:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        found = []
        async with asyncio.timeout(WAIT_S):
            while await consumer.position(place) < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in records]
        return found
    finally:
        await consumer.stop()


def by_confluent(broker: Broker, partition: Partition) -> list[tuple[Any, ...]]:
    return [(m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or []) for m in broker.messages(partition)]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
async def test_both_clients_read_what_was_written_in_every_compression(
    broker: Broker, compression: Compression
) -> None:
    partition, table = broker.topic(3), table_of(20_000)
    target = Target(partition.topic, {partition.topic: 3}, NOW_MS, compression=compression)
    async with started(broker) as guard:
        written = await commit_rows(guard, pieces_of(table, 300_000), target)
    rows = table.to_pylist()
    told: dict[int, list[int]] = {}
    for one in written:
        by_one = by_confluent(broker, one.partition)
        assert by_one == await by_aiokafka(broker, one.partition)
        assert (by_one[0][0], len(by_one)) == (one.first_offset, one.records)
        for _, time_ms, key, value, headers in by_one:
            row = int(value.split(b":")[1].split(b",")[0])
            assert rows[row]["value"].encode() == value
            assert (rows[row]["key"] or "").encode() == (key or b"")
            assert headers == [(item["key"], item["value"]) for item in rows[row]["headers"]]
            assert time_ms == NOW_MS
            told.setdefault(one.partition.number, []).append(row)
    assert sorted(row for of_one in told.values() for row in of_one) == list(range(20_000))
    keyed = [row for row in range(20_000) if rows[row]["key"] is not None]
    for of_one in told.values():
        mine = [row for row in of_one if rows[row]["key"] is not None]
        assert mine == sorted(mine), "the order within a partition is that of the rows"
    assert len(keyed) == 20_000 - 2_858


async def test_compressed_rows_are_smaller_on_the_broker(broker: Broker) -> None:
    batches = encode(
        Records(np.zeros(9, np.int64), *[Field(np.zeros(99, np.uint8), np.zeros(9, np.int64), np.full(9, 99))] * 2)
    )
    for compression in ("lz4", "zstd"):
        (small,) = compressed(batches, compression)  # type: ignore[arg-type]
        assert small.size() < batches[0].size() / 5


def test_a_key_goes_to_the_partition_that_kafkas_own_producers_choose(broker: Broker) -> None:
    rng = np.random.default_rng(20261123)
    keys = [b"", *(rng.bytes(int(length)) for length in rng.integers(0, 40, 400))]
    theirs, ours = broker.topic(7), broker.topic(7)
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap, "partitioner": "murmur2_random"})
    for row, key in enumerate(keys):
        producer.produce(theirs.topic, key=key, value=str(row).encode())
    assert producer.flush(WAIT_S) == 0

    async def write() -> None:
        table = pa.table({"key": pa.array(keys, pa.binary()), "value": [str(row) for row in range(len(keys))]})
        async with started(broker) as guard:
            await commit_rows(guard, pieces_of(table), Target(ours.topic, {ours.topic: 7}, NOW_MS))

    asyncio.run(write())
    for number in range(7):
        found = [set(broker.committed(Partition(topic, number))) for topic in (theirs.topic, ours.topic)]
        assert found[0] == found[1]


async def test_the_frame_is_last_in_the_same_transaction_and_knows_the_offsets(broker: Broker) -> None:
    partition, ledger = broker.topic(2), broker.topic()
    target, table = Target(partition.topic, {partition.topic: 2}, NOW_MS), table_of(5_000)
    seen: list[list[Written]] = []

    def frame(written: list[Written]) -> list[Batch]:
        seen.append(list(written))
        return one_frame(ledger, repr([tuple(one.partition) for one in written]).encode())

    async with started(broker) as guard:
        first = await commit_rows(guard, pieces_of(table), target, frame)
        second = await commit_rows(guard, pieces_of(table), target, frame)
    assert seen == [first, second]
    for before, after in zip(first, second, strict=True):
        # A marker of the first transaction is in between.
        assert after.first_offset == before.records + 1
        offsets = [message.offset() for message in broker.messages(after.partition)]
        assert offsets[before.records :] == list(range(after.first_offset, after.first_offset + after.records))
    assert len(broker.committed(ledger)) == 2


async def test_a_frame_that_is_refused_leaves_no_row_behind(broker: Broker) -> None:
    partition, small = broker.topic(), broker.topic(**{"max.message.bytes": "2000"})
    target = Target(partition.topic, {partition.topic: 1}, NOW_MS)
    async with started(broker) as guard:
        with pytest.raises(NotWritten) as refused:
            await commit_rows(guard, pieces_of(table_of(9_000)), target, lambda _: one_frame(small, b"x" * 9_000))
        assert refused.value.culprits == (small,)
        assert guard.closed
    async with started(broker, guard.transactional_id):
        assert broker.committed(partition) == []


async def test_a_batch_that_is_refused_ends_the_stream_with_its_partition(broker: Broker) -> None:
    partition, small = broker.topic(), broker.topic(**{"max.message.bytes": "2000"})
    taken = count()
    table = pa.table({"value": [b"x" * 900] * 2_000, "topic": ([partition.topic] * 9 + [small.topic]) * 200})

    def pieces() -> Iterator[Piece]:
        for _ in range(200):
            next(taken)
            yield from pieces_of(table)

    counts = {partition.topic: 1, small.topic: 1}
    async with started(broker, in_flight_bytes=2 << 20) as guard:
        with pytest.raises(NotWritten) as refused:
            await commit_rows(guard, pieces(), Target(None, counts, NOW_MS))
    assert small in refused.value.culprits
    assert next(taken) < 100, "it does not send what can never be committed"
    async with started(broker, guard.transactional_id):
        assert broker.committed(partition) == []


async def test_pieces_that_are_lost_midway_leave_no_row_behind(broker: Broker) -> None:
    partition = broker.topic()

    def pieces() -> Iterator[Piece]:
        yield from pieces_of(table_of(30_000), 100_000)
        raise MissingStage("write the batch again")

    target = Target(partition.topic, {partition.topic: 1}, NOW_MS)
    async with started(broker) as guard:
        with pytest.raises(MissingStage, match="write the batch again"):
            await commit_rows(guard, pieces(), target)
        assert guard.closed
    async with started(broker, guard.transactional_id) as next_one:
        await commit_rows(next_one, pieces_of(table_of(10)), target)
    assert len(broker.committed(partition)) == 10


async def test_two_hundred_mebibytes_are_one_transaction_in_bounded_memory(broker: Broker) -> None:
    partition, ledger = broker.topic(4), broker.topic()
    values = pa.array([b"x" * 1_000] * 3_900)

    def pieces() -> Iterator[Piece]:
        for turn in range(50):
            numbers = pa.array(np.arange(3_900) % 4, pa.int32())
            table = pa.table({"value": values, "partition": numbers, "key": [str(turn)] * 3_900})
            yield from pieces_of(table, 8 << 20)

    target = Target(partition.topic, {partition.topic: 4}, NOW_MS)
    limit = 8 << 20
    async with started(broker, in_flight_bytes=limit) as guard:
        await commit_rows(guard, pieces_of(table_of(100)), target)
        gc.collect()
        tracemalloc.start()
        arrow = pa.total_allocated_bytes()
        try:
            written = await commit_rows(guard, pieces(), target, lambda _: one_frame(ledger, b"frame"))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sum(one.records for one in written) == 50 * 3_900
    # Twice the data in flight, because a request is a copy; and a piece, as bytes and as batches.
    assert peak + pa.total_allocated_bytes() - arrow < 2 * limit + (32 << 20), f"{peak >> 20} MiB"
    assert len(broker.committed(ledger)) == 1


async def test_a_reader_finds_by_headers_what_was_doubled_and_what_is_missing(broker: Broker) -> None:
    partition = broker.topic(2)
    table = pa.table({"value": [str(row) for row in range(100)], "key": [str(row) for row in range(100)]})

    async def write(first: int) -> None:
        origin = Origin("flights", "attempt:a", 1, first)
        target = Target(partition.topic, {partition.topic: 2}, NOW_MS, origin=origin)
        async with started(broker) as guard:
            await commit_rows(guard, pieces_of(table, 500), target)

    for first in (0, 200):
        await write(first)
    check = RecordCheck()
    for number in range(2):
        check.add(message.headers() for message in broker.messages(Partition(partition.topic, number)))
    assert found_by(check) == (200, 0, [(100, 199)])
    await write(150)
    again = RecordCheck()
    for number in range(2):
        again.add(headers for *_, headers in await by_aiokafka(broker, Partition(partition.topic, number)))
    assert found_by(again) == (300, 50, [(100, 149)])
    assert [again.duplicated()[name].to_pylist() for name in ("first", "last")] == [[200], [249]]


def found_by(check: RecordCheck) -> tuple[int, int, list[tuple[int, int]]]:
    """Returns the records, duplicates and missing intervals of the only writer."""
    ((records, duplicates),) = [(row["records"], row["duplicates"]) for row in check.findings().to_pylist()]
    return records, duplicates, [(row["first"], row["last"]) for row in check.missing().to_pylist()]


@pytest.mark.parametrize(
    ("columns", "topic", "error"),
    [
        ({"carrier": ["UA"]}, "t", SchemaMismatch),
        ({"value": ["v"], "topic": ["elsewhere"]}, None, NotFound),
        ({"value": ["v"], "partition": pa.array([4], pa.int32())}, "t", BadRequest),
        ({"value": [b"", b"x" * 900_000]}, "t", TooLarge),
    ],
)
def test_rows_are_checked_before_any_effect(columns: dict[str, Any], topic: str | None, error: type[Exception]) -> None:
    table = pa.table(columns)
    with pytest.raises(error, match="nothing was written"):
        check_rows(table, Target(topic, {"t": 4}, NOW_MS))


async def test_a_stream_continues_to_its_end_when_its_caller_disconnects(broker: Broker) -> None:
    partition = broker.topic()
    target = Target(partition.topic, {partition.topic: 1}, NOW_MS)
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def pieces() -> Iterator[Piece]:
        for piece in pieces_of(table_of(20_000), 100_000):
            loop.call_soon_threadsafe(begun.set)
            yield piece

    async with started(broker) as guard:
        caller = asyncio.create_task(commit_rows(guard, pieces(), target))
        await begun.wait()
        caller.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await caller
        await commit_rows(guard, pieces_of(table_of(10)), target)
    assert len(broker.committed(partition)) == 20_010
