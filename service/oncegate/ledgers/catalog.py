"""Keeps account of a ledger's outputs: ranges of rows that wait, and the topics made of published ones.

Changes are applied one after the other, the same live and in replay. `L` is where a range's bytes are: the bytes
themselves in memory, a location in a file for the log.

    Wrote      a range waits under its id
    Published  waiting ranges become the next rows of a topic; nothing is copied
    Dropped    waiting ranges will never be published
    Trimmed    published ranges wholly below an offset are forgotten

A `CatalogSnapshot` says as much as all changes so far.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from oncegate.core.errors import OffsetTrimmed
from oncegate.ports import DropRanges, OutputChange, PublishRanges, TrimRanges, WriteRange

L = TypeVar("L")


class Wrote(msgspec.Struct, Generic[L], frozen=True, array_like=True, tag=1):
    """Makes a range wait under its id; `location`: where its bytes are."""

    range_id: bytes
    rows: int
    location: L


class Published(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Makes waiting ranges the next rows of a topic."""

    topic: str
    partition: int
    first_offset: int
    range_ids: tuple[bytes, ...]


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Gives waiting ranges up."""

    range_ids: tuple[bytes, ...]


class Trimmed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Forgets published ranges that lie wholly below `before_offset`."""

    topic: str
    partition: int
    before_offset: int


Change = Wrote[L] | Published | Dropped | Trimmed


def change_of(output: OutputChange, locate: Callable[[WriteRange], L]) -> Change[L]:
    """Makes the catalog's form of an output change; `locate` tells where a written range's bytes are."""
    match output:
        case WriteRange():
            return Wrote(output.range_id, output.rows, locate(output))
        case PublishRanges():
            return Published(output.topic, output.partition, output.first_offset, output.range_ids)
        case DropRanges():
            return Dropped(output.range_ids)
        case TrimRanges():
            return Trimmed(output.topic, output.partition, output.before_offset)


class TopicRanges(msgspec.Struct, Generic[L], frozen=True, array_like=True):
    """Lists a topic's ranges, (rows, location) each, in order; the first begins at `low_offset`."""

    topic: str
    partition: int
    low_offset: int
    ranges: tuple[tuple[int, L], ...]


class CatalogSnapshot(msgspec.Struct, Generic[L], frozen=True, array_like=True):
    """Says as much as all changes so far: the ranges that wait, and the topics."""

    waiting: tuple[Wrote[L], ...]
    topics: tuple[TopicRanges[L], ...]


@dataclass(frozen=True, slots=True)
class PublishedRange(Generic[L]):
    """Describes a published range: its rows begin at `first_offset`, its bytes are at `location`."""

    first_offset: int
    rows: int
    location: L


@dataclass(slots=True)
class _Topic(Generic[L]):
    low: int = 0
    high: int = 0
    firsts: list[int] = field(default_factory=list)
    ranges: list[PublishedRange[L]] = field(default_factory=list)

    def add(self, rows: int, location: L) -> None:
        self.firsts.append(self.high)
        self.ranges.append(PublishedRange(self.high, rows, location))
        self.high += rows


class Catalog(Generic[L]):
    """Holds what the changes so far have made. `size_of`: the bytes at a location."""

    def __init__(self, size_of: Callable[[L], int], begun: CatalogSnapshot[L] | None = None) -> None:
        """Empty, or as `begun` says."""
        self._size_of = size_of
        self._waiting: dict[bytes, Wrote[L]] = {wrote.range_id: wrote for wrote in begun.waiting} if begun else {}
        self._topics: dict[tuple[str, int], _Topic[L]] = {}
        for held in begun.topics if begun else ():
            topic = self._topics[held.topic, held.partition] = _Topic(held.low_offset, held.low_offset)
            for rows, location in held.ranges:
                topic.add(rows, location)

    @property
    def range_count(self) -> int:
        """Counts the ranges that wait or are published."""
        return len(self._waiting) + sum(len(topic.ranges) for topic in self._topics.values())

    def snapshot(self) -> CatalogSnapshot[L]:
        """Returns all that the changes so far have made."""
        topics = [
            TopicRanges(name, partition, topic.low, tuple((held.rows, held.location) for held in topic.ranges))
            for (name, partition), topic in self._topics.items()
        ]
        return CatalogSnapshot(tuple(self._waiting.values()), tuple(topics))

    def check(self, changes: Iterable[Wrote[L] | Published | Dropped | Trimmed]) -> None:
        """Raises ValueError when the changes, in order, contradict what is there: a bug of the caller. No effect."""
        rows: dict[bytes, int | None] = {}  # what these changes did so far; None: gone
        highs: dict[tuple[str, int], int] = {}
        for change in changes:
            match change:
                case Wrote():
                    if len(change.range_id) != 16 or self._rows(change.range_id, rows) is not None:
                        raise ValueError(f"range {change.range_id.hex()} is used already, or its name is not 16 bytes")
                    rows[change.range_id] = change.rows
                case Published():
                    key = (change.topic, change.partition)
                    high = highs.get(key, self.offsets(*key)[1])
                    if change.first_offset != high:
                        raise ValueError(f"topic {change.topic} ends at {high}, not at {change.first_offset}")
                    highs[key] = high + sum(self._take(change.range_ids, rows))
                case Dropped():
                    self._take(change.range_ids, rows)

    def _rows(self, range_id: bytes, rows: dict[bytes, int | None]) -> int | None:
        waiting = self._waiting.get(range_id)
        return rows.get(range_id, waiting.rows if waiting else None)

    def _take(self, range_ids: Iterable[bytes], rows: dict[bytes, int | None]) -> list[int]:
        taken = []
        for range_id in range_ids:
            count = self._rows(range_id, rows)
            if count is None:
                raise ValueError(f"range {range_id.hex()} does not wait: never written, or published or dropped")
            rows[range_id] = None
            taken.append(count)
        return taken

    def apply(self, change: Wrote[L] | Published | Dropped | Trimmed) -> list[L]:
        """Applies one checked change; returns the locations whose rows nothing names any more."""
        match change:
            case Wrote():
                self._waiting[change.range_id] = change
                return []
            case Published():
                return self._publish(change)
            case Dropped():
                return [self._waiting.pop(range_id).location for range_id in change.range_ids]
            case Trimmed():
                return self._trim(change)

    def _publish(self, change: Published) -> list[L]:
        topic = self._topics.setdefault((change.topic, change.partition), _Topic())
        empty = []
        for range_id in change.range_ids:
            wrote = self._waiting.pop(range_id)
            if wrote.rows == 0:
                empty.append(wrote.location)
                continue
            topic.add(wrote.rows, wrote.location)
        return empty

    def _trim(self, change: Trimmed) -> list[L]:
        topic = self._topics.setdefault((change.topic, change.partition), _Topic())
        count = self._below(topic, change.before_offset)
        gone = [held.location for held in topic.ranges[:count]]
        del topic.ranges[:count], topic.firsts[:count]
        topic.low = topic.firsts[0] if topic.firsts else topic.high
        return gone

    @staticmethod
    def _below(topic: _Topic[L], before_offset: int) -> int:
        """How many ranges lie wholly below the offset."""
        if before_offset >= topic.high:
            return len(topic.ranges)
        return max(0, bisect_right(topic.firsts, before_offset) - 1)

    def would_trim(self, topic: str, partition: int, before_offset: int) -> bool:
        """Tells whether trimming below `before_offset` would forget any range."""
        found = self._topics.get((topic, partition))
        return found is not None and self._below(found, before_offset) > 0

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the lowest offset kept and the next one to be given."""
        found = self._topics.get((topic, partition))
        return (found.low, found.high) if found else (0, 0)

    def find(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[PublishedRange[L]]:
        """Finds whole published ranges until `max_rows` from `offset` on or `max_bytes` are covered; OffsetTrimmed."""
        found = self._topics.get((topic, partition))
        if found is None or offset >= found.high or max_rows <= 0:
            return []
        if offset < found.low:
            raise OffsetTrimmed(
                f"topic {topic}, partition {partition}: offset {offset} was trimmed, the lowest kept is {found.low}; "
                f"read from there",
                low_offset=found.low,
            )
        index = bisect_right(found.firsts, offset) - 1
        covered: list[PublishedRange[L]] = []
        size_bytes = 0
        while index < len(found.ranges) and found.firsts[index] < offset + max_rows:
            covered.append(found.ranges[index])
            size_bytes += self._size_of(found.ranges[index].location)
            if size_bytes >= max_bytes:
                break
            index += 1
        return covered

    def locations(self) -> Iterable[L]:
        """Yields every location that something names, in no order."""
        for wrote in self._waiting.values():
            yield wrote.location
        for topic in self._topics.values():
            for held in topic.ranges:
                yield held.location
