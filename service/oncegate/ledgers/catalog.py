"""The catalog of a ledger's rows: ranges that wait for publication, and topics made of published ranges.

Frames contain changes, which are applied in order, identically when live and in replay:

    Wrote      adds a waiting range under its id
    Published  appends waiting ranges to a topic; no row is copied
    Dropped    gives up waiting ranges, which will never be published
    Trimmed    forgets published ranges wholly below an offset
    Held       adds many published ranges of a topic; only in snapshots

A snapshot is a sequence of such changes, in pieces, that rebuild the catalog from an empty one. A published range takes
80 bytes, in memory and in a snapshot; its location refers to its bytes.
"""

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec
import numpy as np

from oncegate.core.errors import OffsetTrimmed
from oncegate.moment import MomentCopy
from oncegate.packed import BLOCK_RECORDS, PackedList
from oncegate.ports import DropRanges, OutputChange, PublishRanges, SendRanges, TrimRanges, WriteRange


class Location(msgspec.Struct, frozen=True, array_like=True):
    """The location of a range's bytes. A file is named by the epoch that created it and a counter."""

    epoch: int
    counter: int
    offset: int
    length: int
    sha256: bytes

    @property
    def file(self) -> tuple[int, int]:
        """Name of the file: the epoch that created it, and a counter."""
        return (self.epoch, self.counter)

    @property
    def end(self) -> int:
        """First offset after the range."""
        return self.offset + self.length


# Location of a range that is not written yet.
NOWHERE = Location(0, 0, 0, 0, bytes(32))


class Wrote(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Adds a range that waits for publication, under its id; its bytes are at `location`."""

    range_id: bytes
    rows: int
    location: Location


class Published(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Publishes waiting ranges: appends them to a topic."""

    topic: str
    partition: int
    first_offset: int
    range_ids: tuple[bytes, ...]


class Dropped(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Drops waiting ranges, which can then never be published."""

    range_ids: tuple[bytes, ...]


class Trimmed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Trims a topic: removes published ranges wholly below `before_offset`."""

    topic: str
    partition: int
    before_offset: int


class Held(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """Appends published ranges, packed by `PublishedRanges`, to a topic that begins at `low_offset`."""

    topic: str
    partition: int
    low_offset: int
    ranges: bytes


CatalogChange = Wrote | Published | Dropped | Trimmed
SnapshotChange = CatalogChange | Held
encode_changes = msgspec.msgpack.Encoder().encode
decode_changes = msgspec.msgpack.Decoder(list[SnapshotChange]).decode


def change_of(output: OutputChange, locate: Callable[[WriteRange], Location]) -> CatalogChange:
    """Converts an output change to the catalog's form; `locate` returns the location of a written range.

    Raises ValueError for `SendRanges`: ledgers that send rows elsewhere convert these changes before.
    """
    match output:
        case WriteRange():
            return Wrote(output.range_id, output.rows, locate(output))
        case PublishRanges():
            return Published(output.topic, output.partition, output.first_offset, output.range_ids)
        case DropRanges():
            return Dropped(output.range_ids)
        case TrimRanges():
            return Trimmed(output.topic, output.partition, output.before_offset)
        case SendRanges():
            raise ValueError(f"this ledger keeps rows itself, and sends none to topic {output.topic} elsewhere")


def located(changes: Iterable[CatalogChange], locations: Iterator[Location]) -> list[CatalogChange]:
    """Assigns the next of `locations` to each `Wrote`; returns other changes as they are."""
    return [
        Wrote(change.range_id, change.rows, next(locations)) if isinstance(change, Wrote) else change
        for change in changes
    ]


# First offset, rows; epoch, counter, offset, length and SHA-256 of the location.
_RANGE = "<QQQQQQ32s"
_RANGE_DTYPE = np.dtype(
    {"names": ["counter", "offset", "length"], "formats": ["<u8"] * 3, "offsets": [24, 32, 40], "itemsize": 80}
)
RANGE_BYTES = struct.calcsize(_RANGE)
NO_OFFSET = 2**64 - 1


@dataclass(frozen=True, slots=True)
class PublishedRange:
    """A published range of rows that starts at `first_offset`; its bytes are at `location`."""

    first_offset: int
    rows: int
    location: Location


class PublishedRanges:
    """Published ranges in offset order; `low` is the lowest offset kept, `high` the next offset to be assigned."""

    __slots__ = ("_ranges", "high", "low")

    def __init__(self, low: int = 0) -> None:
        self.low = self.high = low
        self._ranges = PackedList(_RANGE)

    def __len__(self) -> int:
        return len(self._ranges)

    def __getitem__(self, place: int) -> PublishedRange:
        first_offset, rows, *at = self._ranges[place]
        return PublishedRange(first_offset, rows, Location(*at))

    def add(self, rows: int, at: Location) -> None:
        """Appends a range."""
        self._ranges.append(self.high, rows, at.epoch, at.counter, at.offset, at.length, at.sha256)
        self.high += rows

    def extend(self, data: bytes) -> None:
        """Appends ranges in the form returned by `frozen`. Raises ValueError for other data."""
        self._ranges.extend(data)
        if len(self):
            last = self[len(self) - 1]
            self.high = last.first_offset + last.rows

    def below(self, before_offset: int) -> int:
        """Returns the number of ranges wholly below the offset."""
        if before_offset >= self.high:
            return len(self)
        return max(0, self._ranges.not_above(before_offset) - 1)

    def trim(self, before_offset: int) -> list[Location]:
        """Removes the ranges wholly below the offset; returns their locations."""
        count = self.below(before_offset)
        gone = [self[place].location for place in range(count)]
        self._ranges.drop(count)
        self.low = self[0].first_offset if len(self) else self.high
        return gone

    def covering(self, offset: int, max_rows: int, max_bytes: int) -> list[PublishedRange]:
        """Returns whole ranges until they hold `max_rows` rows at or after `offset`, or `max_bytes`.

        `offset` must be at least `low`.
        """
        covered: list[PublishedRange] = []
        size_bytes = 0
        for place in range(self._ranges.not_above(offset) - 1, len(self)):
            one = self[place]
            if one.first_offset >= offset + max_rows:
                break
            covered.append(one)
            size_bytes += one.location.length
            if size_bytes >= max_bytes:
                break
        return covered

    def lowest_of(self, counter: int) -> int:
        """Returns the lowest offset of all non-empty locations with this counter, or NO_OFFSET if there are none."""
        lowest = NO_OFFSET
        for block in self.frozen():
            ranges = np.frombuffer(block, _RANGE_DTYPE)
            named = ranges["offset"][(ranges["length"] > 0) & (ranges["counter"] == counter)]
            lowest = min(lowest, int(named.min(initial=NO_OFFSET)))
        return lowest

    def locations(self) -> Iterator[Location]:
        for _, _, *at in self._ranges:
            yield Location(*at)

    def frozen(self) -> list[bytes]:
        """Returns a copy of all ranges as they are now, in blocks."""
        return self._ranges.frozen()


# Limits of one encoding step of about a millisecond: changes, and already packed ranges (256 KiB).
CHANGES_PER_PIECE = 1_000
BLOCKS_PER_PIECE = 6
_PIECE_BYTES = BLOCKS_PER_PIECE * BLOCK_RECORDS * RANGE_BYTES

# Topic, partition, lowest offset and blocks of published ranges.
_Copied = tuple[str, int, int, list[bytes]]
_Copies = MomentCopy[tuple[str, int], PublishedRanges, _Copied]
# Waiting ranges and topics, as of one moment.
CatalogPart = tuple[list[Wrote], list[_Copied]]


class Catalog:
    """Catalog of one ledger, as of the changes applied so far."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, Wrote] = {}
        self._topics: dict[tuple[str, int], PublishedRanges] = {}
        self._saved: _Copies | None = None

    @property
    def ranges_waiting(self) -> int:
        """Number of waiting ranges."""
        return len(self._waiting)

    def waiting(self, range_ids: Iterable[bytes]) -> list[Location]:
        """Returns the locations of waiting ranges."""
        return [self._waiting[range_id].location for range_id in range_ids]

    def topics(self) -> Iterator[tuple[str, int, int, int]]:
        """Yields topic, partition, lowest offset kept and number of ranges, for every topic."""
        for (name, partition), topic in self._topics.items():
            yield name, partition, topic.low, len(topic)

    def pieces(self) -> Iterator[bytes]:
        """Yields the catalog as of this call, encoded in pieces for `take`; the catalog may change during iteration."""
        parts = self.parts()
        return (piece for part in parts for piece in encoded_part(part))

    def parts(self) -> Generator[CatalogPart, None, None]:
        """Yields a copy of the catalog as of this call, in parts; the same thread may change the catalog during
        iteration.

        Any thread may encode a part with `encoded_part`. The caller must exhaust or close the generator.
        """
        topics = MomentCopy(self._topics, lambda key, topic: (*key, topic.low, topic.frozen()))
        self._saved = topics
        parts = self._parts(list(self._waiting.values()), topics)
        # Started, so that closing or discarding it runs its `finally`.
        next(parts)
        return parts

    def _parts(self, waiting: list[Wrote], topics: _Copies) -> Generator[CatalogPart, None, None]:
        try:
            yield [], []
            yield waiting, []
            while some := list(islice(topics, CHANGES_PER_PIECE)):
                yield [], some
        finally:
            if self._saved is topics:
                self._saved = None

    def _changing(self, topic: str, partition: int) -> PublishedRanges:
        """Returns a topic that the caller may change in place;
        a snapshot in progress keeps the state before the change.
        """
        if self._saved is not None:
            self._saved.changing((topic, partition))
        return self._topics.setdefault((topic, partition), PublishedRanges())

    def take(self, piece: bytes) -> None:
        """Applies a piece of a snapshot. Raises ValueError if it is not one."""
        for change in decode_changes(piece):
            self.apply(change)

    def check(self, changes: Iterable[CatalogChange]) -> None:
        """Raises ValueError if the changes, applied in order, contradict the catalog, which is a bug in the caller.
        No effect.
        """
        rows: dict[bytes, int | None] = {}  # rows of ranges after the changes so far; None: removed
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
        """Applies one checked change; returns the locations whose rows are no longer referenced."""
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

    def changes_something(self, change: CatalogChange) -> bool:
        """Returns whether a change has an effect; a trim has none if it removes no range."""
        if not isinstance(change, Trimmed):
            return True
        found = self._topics.get((change.topic, change.partition))
        return found is not None and found.below(change.before_offset) > 0

    def offsets(self, topic: str, partition: int) -> tuple[int, int]:
        """Returns the lowest offset kept and the next offset to be assigned."""
        found = self._topics.get((topic, partition))
        return (0, 0) if found is None else (found.low, found.high)

    def find(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[PublishedRange]:
        """Returns whole published ranges until they hold `max_rows` rows at or after `offset`, or `max_bytes`.

        Raises OffsetTrimmed.
        """
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
        """Returns every referenced file."""
        return {location.file for location in self.locations()}

    def lowest_offset(self, counter: int) -> int | None:
        """Returns the lowest offset of all non-empty locations with this counter, or None if there are none.

        Takes about 20 ms for a million locations.
        """
        waiting = [one.location for one in self._waiting.values()]
        lowest = [at.offset for at in waiting if at.length and at.counter == counter]
        found = min([*lowest, *(topic.lowest_of(counter) for topic in self._topics.values())], default=NO_OFFSET)
        return None if found == NO_OFFSET else found

    def locations(self) -> Iterator[Location]:
        """Yields every referenced location, in no particular order."""
        for wrote in self._waiting.values():
            yield wrote.location
        for topic in self._topics.values():
            yield from topic.locations()


def encoded_part(part: CatalogPart) -> Iterator[bytes]:
    """Encodes a part of a catalog, in pieces for `Catalog.take`."""
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
