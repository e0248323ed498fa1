"""A ledger reports the row offsets of an append after its commit, and its frames record them."""

import random
from collections.abc import AsyncIterator

import msgspec
import numpy as np
import pytest

from oncegate.ledgers.frames import Body, Frame, Sent, entries_of
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.rows.stream import RowStream, Target
from oncegate.ledgers.kafka.shard.append_ranges import _sent
from oncegate.ports import AppendRefused, OpenLedger, RowPlaces, RowRange, SendRanges, SendReport, partition_numbers
from tests.support.kafka_broker import Broker
from tests.support.kafka_ledger import Prefix
from tests.support.kafka_proxy import END_TXN, KafkaProxy
from tests.support.kafka_sends import range_of
from tests.support.kafka_topics import configure


@pytest.fixture
def prefix(broker: Broker) -> Prefix:
    return Prefix(broker)


async def send(opened: OpenLedger, topic: str, *values: str) -> list[RowPlaces]:
    """Appends an entry with rows. Returns the reported row offsets."""
    told: list[RowPlaces] = []
    rows = range_of(*values)
    report = SendReport(opened.ledger.mark.position + 1, told.append)
    await opened.ledger.append([b"rows"], [rows, SendRanges(topic, (rows.range_id,), report=report)])
    return told


async def kept(opened: OpenLedger) -> list[RowPlaces | None]:
    """Returns the row offsets in the frames, by entry."""
    return [one.places async for batch in opened.ledger.replay(1) for one in batch]


def values_at(broker: Broker, partition: Partition, places: RowPlaces) -> list[bytes]:
    lying = {message.offset(): message.value() for message in broker.messages(partition)}
    found = places.of_rows()
    assert found is not None
    return [lying[offset] for offset in found[1].tolist()]


@pytest.mark.slow
async def test_offsets_of_a_commit_without_an_answer_are_those_of_the_rows(
    prefix: Prefix, proxy: KafkaProxy, broker: Broker
) -> None:
    partition = broker.topic()
    async with prefix.opened(proxied=True) as opened:
        proxy.lose_answer(END_TXN)
        (answer,) = await send(opened, partition.topic, "a", "b")
        assert await kept(opened) == [answer]
    assert values_at(broker, partition, answer) == [b"a", b"b"]


@pytest.mark.slow
async def test_offsets_of_an_aborted_transaction_are_not_reported(prefix: Prefix, broker: Broker) -> None:
    good, small = broker.topic(), broker.topic()
    async with prefix.opened() as opened:
        first = range_of("warm")
        await opened.ledger.append([b"warm"], [first, SendRanges(small.topic, (first.range_id,))])
        configure(broker, small.topic, "max.message.bytes", "1000")
        told: list[RowPlaces] = []
        fits, large = range_of("a", "b"), range_of(*("x" * 300 for _ in range(20)))
        position = opened.ledger.mark.position + 1
        sends = [
            SendRanges(topic, (one.range_id,), report=SendReport(position + number, told.append))
            for number, (topic, one) in enumerate([(good.topic, fits), (small.topic, large)])
        ]
        with pytest.raises(AppendRefused):
            await opened.ledger.append([b"fits", b"large"], [fits, large, *sends])
        assert told == []
        await opened.ledger.append([b"fits"], [fits, sends[0]])
        (places,) = told
        assert await kept(opened) == [None, places]
    (begin, end) = (places.ranges[0].first_offset, broker.ends(good.topic)[1])
    assert 0 < begin < end, "the aborted try took offsets before them"
    assert values_at(broker, good, places) == [b"a", b"b"]


@pytest.mark.slow
async def test_a_compaction_and_an_opening_keep_the_offsets_of_later_rows(prefix: Prefix, broker: Broker) -> None:
    async def snapshot():  # type: ignore[no-untyped-def]
        yield b"all before"

    partition = broker.topic()
    async with prefix.opened() as opened:
        await send(opened, partition.topic, "a")
        await opened.ledger.compact(opened.ledger.mark.position, snapshot())
        (answer,) = await send(opened, partition.topic, "b")
        assert await kept(opened) == [None, answer]
    async with prefix.opened() as opened:
        assert (await kept(opened))[:2] == [None, answer]
    assert values_at(broker, partition, answer) == [b"b"]


def frame_of(changes: list[object]) -> Frame:
    body = msgspec.msgpack.decode(msgspec.msgpack.encode(Body([b"e"] * 3, changes)), type=Body)  # type: ignore[arg-type]
    return Frame(0, 1, 5, 3, bytes(16), bytes(32), bytes(32), body)


def test_a_frame_of_a_previous_version_has_no_row_offsets() -> None:
    old = [18, "t", 0, 7, 2]
    assert [one.places for one in entries_of(frame_of([old]))] == [None] * 3
    assert frame_of([old]).body.changes == [Sent("t", 0, 7, 2)]


def test_a_frame_has_the_row_offsets_of_each_of_its_entries() -> None:
    one = RowPlaces((RowRange("t", 1, 7, 2), RowRange("t", 1, 12, 1), RowRange("u", 0, 0, 1)), bytes([0, 1, 0, 0]))
    other = RowPlaces((RowRange("t", 1, 13, 2),))
    found = entries_of(frame_of([*_sent(one, 5), *_sent(other, 7)]))
    assert [(entry.position, entry.places) for entry in found] == [(5, one), (6, None), (7, other)]


@pytest.mark.parametrize("partitions", [1, 2, 7, 300])
def test_each_row_is_where_its_partition_s_records_put_it(partitions: int) -> None:
    rng = random.Random(partitions)
    rows = [rng.randrange(partitions) for _ in range(2_000)]
    wanted = np.zeros(len(rows), np.int64)
    ranges, numbered = list[RowRange](), []
    for number in dict.fromkeys(rows):
        mine, offset = np.flatnonzero(np.array(rows) == number), rng.randrange(1_000)
        numbered.append((mine, number))
        while len(mine):
            stretch, mine = np.split(mine, [rng.randrange(1, 9)])
            wanted[stretch] = np.arange(offset, offset + len(stretch))
            ranges.append(RowRange("t", number, offset, len(stretch)))
            offset += len(stretch) + rng.randrange(1, 5)
    order = {number: at for at, number in enumerate(dict.fromkeys(rows))}
    places = RowPlaces(tuple(ranges), partition_numbers([(mine, order[number]) for mine, number in numbered]))
    found = places.of_rows()
    assert found is not None
    assert found[1].tolist() == wanted.tolist()
    assert [ranges[number].partition for number in found[0].tolist()] == rows


def test_rows_whose_offset_no_broker_reported_have_none() -> None:
    places = RowPlaces((RowRange("t", 0, 5, 2), RowRange("t", 0, -1, 3)))
    found = places.of_rows()
    assert found is not None
    assert found[1].tolist() == [5, 6, -1, -1, -1]
    assert not places.is_known()


@pytest.mark.parametrize(
    ("offsets", "ranges"),
    [
        ([0, 3, 6], [(0, 9)]),
        ([0, 4, 7], [(0, 3), (4, 6)]),
        ([5, 8, 12], [(5, 6), (12, 3)]),
        ([5, 9, 8], [(5, 3), (9, 3), (8, 3)]),
        ([-1, 2, 5], [(-1, 3), (2, 6)]),
        ([0, -1, -1], [(0, 3), (-1, 3), (-1, 3)]),
    ],
)
async def test_batches_that_follow_each_other_are_one_range_and_others_begin_another(
    offsets: list[int], ranges: list[tuple[int, int]]
) -> None:
    async def pieces() -> AsyncIterator[memoryview]:
        for _ in range(3):
            yield memoryview(range_of("a", "b", "c").data)

    stream = RowStream(pieces(), Target("t", {"t": 1}, 0))
    assert len([batch async for batch in stream.batches()]) == 3
    assert [(one.first_offset, one.rows) for one in stream.written(offsets).ranges] == ranges
