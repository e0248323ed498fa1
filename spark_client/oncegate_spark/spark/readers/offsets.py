"""Computes the offsets of a read: named offsets, limits, lost rows, and slices. No I/O.

An offset is a row's number in its partition; a range [start, end) contains the rows from start, without end. A read
that cannot return exactly the requested rows raises before a task starts.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncegate_spark.errors import BadOption, LedgerBehind, Stopped

PartitionOffsets = dict[int, int]

EARLIEST, LATEST = "earliest", "latest"
KAFKA_EARLIEST, KAFKA_LATEST = -2, -1  # in Kafka's JSON of offsets
SLICE_ROWS = 250_000  # rows per task: enough to amortise it, few enough for a cheap retry
OFFSET_TRIMMED = "OFFSET_TRIMMED"


@dataclass(frozen=True)
class Ends:
    """Ends of a topic: per partition, the lowest kept offset and the offset of the next row."""

    low: PartitionOffsets
    high: PartitionOffsets

    @classmethod
    def of(cls, low: Iterable[int], high: Iterable[int]) -> "Ends":
        """Creates the ends from two lists in partition order."""
        return cls(dict(enumerate(low)), dict(enumerate(high)))


@dataclass(frozen=True)
class OffsetSpan:
    """Rows of one partition, from `start` to, but excluding, `end`."""

    partition: int
    start: int
    end: int


def parse(name: str, text: str, topic: str) -> str | PartitionOffsets:
    """Parses the option `name`: earliest, latest, or an offset per partition as JSON, in our format or Kafka's."""
    if text in (EARLIEST, LATEST):
        return text
    try:
        document = json.loads(text)
        if any(type(of_topic) is dict for of_topic in document.values()):
            return _from_kafka(name, document, topic)
        return from_json(document)
    except (ValueError, AttributeError, TypeError):
        raise BadOption(
            f'{name} is {text!r}; it must be {EARLIEST}, {LATEST} or an offset per partition as JSON: {{"0": 17}}'
        ) from None


def from_json(partitions: Mapping[str, int], least: int = 0) -> PartitionOffsets:
    """Returns offsets by partition from JSON. Raises ValueError for invalid ones."""
    offsets = {int(partition): offset for partition, offset in partitions.items()}
    if not offsets or any(type(offset) is not int or offset < least for offset in offsets.values()):
        raise ValueError("offsets must be whole numbers from 0")
    return offsets


def _from_kafka(name: str, topics: Mapping[str, Mapping[str, int]], topic: str) -> PartitionOffsets:
    """Parses Kafka's format, {"topic": {"0": 17}}, where -2 is earliest and -1 latest."""
    if list(topics) != [topic]:
        raise BadOption(f"{name} names the topics {', '.join(topics)}, and this read is of topic {topic} only")
    return from_json(topics[topic], KAFKA_EARLIEST)


def to_json(offsets: PartitionOffsets) -> dict[str, int]:
    """Returns offsets sorted by partition: Spark compares offsets by their text."""
    return {str(partition): offsets[partition] for partition in sorted(offsets)}


def resolve(name: str, wanted: str | PartitionOffsets, ends: Ends, topic: str) -> PartitionOffsets:
    """Returns the offsets that an option requests. Raises BadOption if the topic has no such partition or offset."""
    if isinstance(wanted, str):
        return dict(ends.low if wanted == EARLIEST else ends.high)
    if wanted.keys() != ends.high.keys():
        raise BadOption(
            f"{name} has the partitions {sorted(wanted)} and topic {topic} has {sorted(ends.high)}; name each of them"
        )
    for partition, offset in wanted.items():
        if offset > ends.high[partition]:
            raise BadOption(
                f"{name} has offset {offset} for partition {partition}, and topic {topic} ends there at "
                f"{ends.high[partition]}"
            )
    named = {KAFKA_EARLIEST: ends.low, KAFKA_LATEST: ends.high}
    return {partition: named[offset][partition] if offset < 0 else offset for partition, offset in wanted.items()}


def begun(start: Mapping[str, int], ends: Ends) -> PartitionOffsets:
    """Returns a stream's position; a stream that started before its topic existed is at the first row of each
    partition.
    """
    return from_json(start) if start else dict.fromkeys(ends.high, 0)


def check_known(read: PartitionOffsets, ends: Ends, topic: str) -> None:
    """Raises LedgerBehind if the topic ends before the offsets already read."""
    beyond = [
        f"partition {partition} was read up to {offset} and ends at {ends.high.get(partition)}"
        for partition, offset in sorted(read.items())
        if offset > ends.high.get(partition, -1)
    ]
    if beyond or read.keys() != ends.high.keys():
        raise LedgerBehind(
            f"topic {topic} does not match what this query has read: {'; '.join(beyond) or 'other partitions'}. The "
            "gateway serves an older copy of its ledger, or the topic was replaced; restore the newest copy, or start "
            "with a new checkpoint",
            code="LEDGER_BEHIND",
        )


def first_kept(span: OffsetSpan, low: int, fail_on_data_loss: bool, topic: str) -> tuple[int, str | None]:
    """Returns the first offset to read, and a warning if rows below `low` are lost. Raises Stopped with
    `fail_on_data_loss`.
    """
    if low <= span.start:
        return span.start, None
    until = min(low, span.end)
    lost = (
        f"{until - span.start} rows of topic {topic}, partition {span.partition}, are lost: the offsets {span.start} "
        f"to {until - 1} were trimmed by the topic's retention before they were read; the lowest kept is {low}"
    )
    if fail_on_data_loss:
        raise Stopped(f'{lost}. To continue there: .option("failOnDataLoss", "false")', code=OFFSET_TRIMMED)
    return until, lost


def limited(start: PartitionOffsets, high: PartitionOffsets, max_rows: int | None) -> PartitionOffsets:
    """Returns the end of a batch with at most `max_rows`, shared fairly: partitions with small lags are read
    completely.
    """
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
    """Splits the rows from `start` to `end` into spans for one task each."""
    return [
        OffsetSpan(partition, first, min(first + slice_rows, end[partition]))
        for partition in sorted(start)
        for first in range(start[partition], end[partition], slice_rows)
    ]
