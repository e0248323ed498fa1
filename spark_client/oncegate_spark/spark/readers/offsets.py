"""Chooses which offsets a read covers: names for them, limits, lost ones, and slices. No I/O.

Rule 1: an offset is a row's number in its partition; a range [start, end) is what lies between two of them.
Rule 2: whatever cannot be read as asked is an error here, before a task begins.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption, LedgerBehind, Stopped

PartitionOffsets = dict[int, int]

EARLIEST, LATEST = "earliest", "latest"
KAFKA_EARLIEST, KAFKA_LATEST = -2, -1  # in Kafka's JSON of offsets, for one partition
SLICE_ROWS = 250_000  # rows of one task: enough to be worth it, few enough that a retry is cheap
OFFSET_TRIMMED = "OFFSET_TRIMMED"


@dataclass(frozen=True)
class Ends:
    """The ends of a topic: the lowest offset kept of each partition, and the one that its next row will have."""

    low: PartitionOffsets
    high: PartitionOffsets

    @classmethod
    def of(cls, low: Iterable[int], high: Iterable[int]) -> "Ends":
        """From two lists in the order of partitions."""
        return cls(dict(enumerate(low)), dict(enumerate(high)))


@dataclass(frozen=True)
class OffsetSpan:
    """Rows of one partition, from `start` up to and without `end`."""

    partition: int
    start: int
    end: int


def parse(name: str, text: str, topic: str) -> str | PartitionOffsets:
    """What the option `name` says: earliest, latest, or an offset for each partition as JSON, ours or Kafka's."""
    if text in (EARLIEST, LATEST):
        return text
    try:
        document = json.loads(text)
        if any(type(of_topic) is dict for of_topic in document.values()):
            return _from_kafka(name, document, topic)
        return from_json(document)
    except (ValueError, AttributeError, TypeError):
        raise BadOption(
            f'{name} is {text!r}; it is {EARLIEST}, {LATEST} or an offset for each partition as JSON: {{"0": 17}}'
        ) from None


def from_json(partitions: Mapping[str, int], least: int = 0) -> PartitionOffsets:
    """Offsets by partition, from what JSON gives. Raises ValueError for what is none."""
    offsets = {int(partition): offset for partition, offset in partitions.items()}
    if not offsets or any(type(offset) is not int or offset < least for offset in offsets.values()):
        raise ValueError("offsets are whole numbers from 0")
    return offsets


def _from_kafka(name: str, topics: Mapping[str, Mapping[str, int]], topic: str) -> PartitionOffsets:
    """Offsets in Kafka's form, {"topic": {"0": 17}}, where -2 is the earliest and -1 the latest."""
    if list(topics) != [topic]:
        raise BadOption(f"{name} names the topics {', '.join(topics)}, and this read is of topic {topic} alone")
    return from_json(topics[topic], KAFKA_EARLIEST)


def to_json(offsets: PartitionOffsets) -> dict[str, int]:
    """By number of partition: Spark takes two offsets for the same when their texts are."""
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


def resolve(name: str, wanted: str | PartitionOffsets, ends: Ends, topic: str) -> PartitionOffsets:
    """The offsets that an option asks for. Raises BadOption where the topic has no such partition or offset."""
    if isinstance(wanted, str):
        return dict(ends.low if wanted == EARLIEST else ends.high)
    if wanted.keys() != ends.high.keys():
        raise BadOption(
            f"{name} names the partitions {sorted(wanted)} and topic {topic} has {sorted(ends.high)}; name each of them"
        )
    for partition, offset in wanted.items():
        if offset > ends.high[partition]:
            raise BadOption(
                f"{name} asks for offset {offset} of partition {partition}, and topic {topic} ends there at "
                f"{ends.high[partition]}"
            )
    named = {KAFKA_EARLIEST: ends.low, KAFKA_LATEST: ends.high}
    return {partition: named[offset][partition] if offset < 0 else offset for partition, offset in wanted.items()}


def begun(start: Mapping[str, int], ends: Ends) -> PartitionOffsets:
    """Where a stream stands; one that began before its topic was there stands at the first row of each partition."""
    return from_json(start) if start else dict.fromkeys(ends.high, 0)


def check_known(read: PartitionOffsets, ends: Ends, topic: str) -> None:
    """Raises LedgerBehind when the topic ends before what was read of it already."""
    beyond = [
        f"partition {partition} was read up to {offset} and ends at {ends.high.get(partition)}"
        for partition, offset in sorted(read.items())
        if offset > ends.high.get(partition, -1)
    ]
    if beyond or read.keys() != ends.high.keys():
        raise LedgerBehind(
            f"topic {topic} is not what this query has read: {'; '.join(beyond) or 'other partitions'}. The gateway "
            "serves an older copy of its ledger, or the topic is another one; put the newest copy back, or start "
            "a new checkpoint",
            code="LEDGER_BEHIND",
        )


def first_kept(span: OffsetSpan, low: int, fail_on_data_loss: bool, topic: str) -> tuple[int, str | None]:
    """Where to begin, and what to warn of, when the offsets below `low` are gone. Raises Stopped if that is refused."""
    if low <= span.start:
        return span.start, None
    until = min(low, span.end)
    lost = (
        f"{until - span.start} rows of topic {topic}, partition {span.partition}, are lost: the offsets {span.start} "
        f"to {until - 1} were trimmed by the topic's retention before they were read; the lowest kept is {low}"
    )
    if fail_on_data_loss:
        raise Stopped(f'{lost}. To go on there: .option("failOnDataLoss", "false")', code=OFFSET_TRIMMED)
    return until, lost


def limited(start: PartitionOffsets, high: PartitionOffsets, max_rows: int | None) -> PartitionOffsets:
    """Where a batch ends that takes `max_rows` at most: who has little to give gives all, the others share alike."""
    if max_rows is None:
        return {partition: max(offset, high[partition]) for partition, offset in start.items()}
    lags = {partition: max(0, high[partition] - offset) for partition, offset in start.items()}
    end, left = dict(start), max_rows
    by_lag = sorted(lags, key=lambda partition: (lags[partition], partition))
    for taken, partition in enumerate(by_lag):
        rows = min(lags[partition], left // (len(by_lag) - taken))
        end[partition], left = start[partition] + rows, left - rows
    return end


def slices(start: PartitionOffsets, end: PartitionOffsets, slice_rows: int = SLICE_ROWS) -> list[OffsetSpan]:
    """The rows from `start` up to `end`, as what one task reads each."""
    return [
        OffsetSpan(partition, first, min(first + slice_rows, end[partition]))
        for partition in sorted(start)
        for first in range(start[partition], end[partition], slice_rows)
    ]
