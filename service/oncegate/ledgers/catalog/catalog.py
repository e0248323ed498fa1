"""Keeps account of a ledger's outputs: ranges of rows that wait, and the topics made of published ones.

Changes (`changes.py`) are applied one after the other, the same live and in replay. A snapshot is a sequence of such
changes, in pieces, that make the same of an empty catalog.
"""

from collections.abc import Generator, Iterable, Iterator
from itertools import islice

from oncegate.core.errors import OffsetTrimmed
from oncegate.ledgers.catalog.changes import (
    Change,
    Dropped,
    Held,
    Location,
    Published,
    SnapshotChange,
    Trimmed,
    Wrote,
    decode_changes,
    encode_changes,
)
from oncegate.ledgers.catalog.published_ranges import NO_OFFSET, RANGE_BYTES, PublishedRange, PublishedRanges
from oncegate.moment import MomentCopy
from oncegate.packed import BLOCK_RECORDS

# Encoded at once, in about a millisecond: changes, and ranges that are bytes already (256 KiB).
CHANGES_PER_PIECE = 1_000
BLOCKS_PER_PIECE = 6
_PIECE_BYTES = BLOCKS_PER_PIECE * BLOCK_RECORDS * RANGE_BYTES

# Topic, partition, lowest offset and blocks of published ranges.
_Copied = tuple[str, int, int, list[bytes]]
_Copies = MomentCopy[tuple[str, int], PublishedRanges, _Copied]
# Ranges that wait, and topics, as they were at one moment.
Part = tuple[list[Wrote], list[_Copied]]


class Catalog:
    """Holds what the changes so far have made."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, Wrote] = {}
        self._topics: dict[tuple[str, int], PublishedRanges] = {}
        self._saved: _Copies | None = None

    @property
    def ranges_waiting(self) -> int:
        """Counts the ranges that wait."""
        return len(self._waiting)

    def waiting(self, range_ids: Iterable[bytes]) -> list[Location]:
        """Returns where the bytes of ranges that wait are."""
        return [self._waiting[range_id].location for range_id in range_ids]

    def topics(self) -> Iterator[tuple[str, int, int, int]]:
        """Yields topic, partition, lowest offset kept and count of ranges, of every topic."""
        for (name, partition), topic in self._topics.items():
            yield name, partition, topic.low, len(topic)

    def pieces(self) -> Iterator[bytes]:
        """Encodes everything as it is at the call, a piece at a time, for `take`; changes may come meanwhile."""
        parts = self.parts()
        return (piece for part in parts for piece in encoded_part(part))

    def parts(self) -> Generator[Part, None, None]:
        """Copies everything as it is at the call, some at a time; changes may come meanwhile, from the same thread.

        Any thread may encode a part, by `encoded_part`. To be gone through, or closed.
        """
        topics = MomentCopy(self._topics, lambda key, topic: (*key, topic.low, topic.frozen()))
        self._saved = topics
        parts = self._parts(list(self._waiting.values()), topics)
        # It has begun: closing it, or throwing it away, is noted.
        next(parts)
        return parts

    def _parts(self, waiting: list[Wrote], topics: _Copies) -> Generator[Part, None, None]:
        try:
            yield [], []
            yield waiting, []
            while some := list(islice(topics, CHANGES_PER_PIECE)):
                yield [], some
        finally:
            if self._saved is topics:
                self._saved = None

    def _changing(self, topic: str, partition: int) -> PublishedRanges:
        """Returns what is changed in place next: a snapshot under way has it as it was."""
        if self._saved is not None:
            self._saved.changing((topic, partition))
        return self._topics.setdefault((topic, partition), PublishedRanges())

    def take(self, piece: bytes) -> None:
        """Applies a piece of a snapshot. ValueError: it is none."""
        for change in decode_changes(piece):
            self.apply(change)

    def check(self, changes: Iterable[Change]) -> None:
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

    def apply(self, change: SnapshotChange) -> list[Location]:
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
                return self._changing(change.topic, change.partition).trim(change.before_offset)
            case Held():
                topic = self._topics.setdefault((change.topic, change.partition), PublishedRanges(change.low_offset))
                topic.extend(change.ranges)
                return []

    def _publish(self, change: Published) -> list[Location]:
        topic = self._changing(change.topic, change.partition)
        empty = []
        for range_id in change.range_ids:
            wrote = self._waiting.pop(range_id)
            if wrote.rows == 0:
                empty.append(wrote.location)
                continue
            topic.add(wrote.rows, wrote.location)
        return empty

    def changes_something(self, change: Change) -> bool:
        """Tells whether a change would leave anything other than it is: a trim may forget no range."""
        if not isinstance(change, Trimmed):
            return True
        found = self._topics.get((change.topic, change.partition))
        return found is not None and found.below(change.before_offset) > 0

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the lowest offset kept and the next one to be given."""
        found = self._topics.get((topic, partition))
        return (0, 0) if found is None else (found.low, found.high)

    def find(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[PublishedRange]:
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
        return found.covering(offset, max_rows, max_bytes)

    def files(self) -> set[tuple[int, int]]:
        """Returns every file that something names."""
        return {location.file for location in self.locations()}

    def lowest_offset(self, counter: int) -> int | None:
        """Returns the lowest offset of a location with this counter that has bytes; None: there is none.

        Of a million, in some 20 ms.
        """
        waiting = [one.location for one in self._waiting.values()]
        lowest = [at.offset for at in waiting if at.length and at.counter == counter]
        found = min([*lowest, *(topic.lowest_of(counter) for topic in self._topics.values())], default=NO_OFFSET)
        return None if found == NO_OFFSET else found

    def locations(self) -> Iterator[Location]:
        """Yields every location that something names, in no order."""
        for wrote in self._waiting.values():
            yield wrote.location
        for topic in self._topics.values():
            yield from topic.locations()


def encoded_part(part: Part) -> Iterator[bytes]:
    """Encodes a part of a catalog, a piece at a time, for `Catalog.take`."""
    waiting, topics = part
    for at in range(0, len(waiting), CHANGES_PER_PIECE):
        yield encode_changes(waiting[at : at + CHANGES_PER_PIECE])
    few: list[Held] = []
    size_bytes = 0
    for topic, partition, low, blocks in topics:
        for at in range(0, len(blocks), BLOCKS_PER_PIECE):
            few.append(Held(topic, partition, low, b"".join(blocks[at : at + BLOCKS_PER_PIECE])))
            size_bytes += len(few[-1].ranges)
            if len(few) == CHANGES_PER_PIECE or size_bytes >= _PIECE_BYTES:
                yield encode_changes(few)
                few, size_bytes = [], 0
    if few:
        yield encode_changes(few)
