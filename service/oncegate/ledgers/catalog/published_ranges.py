"""Holds the published ranges of one partition of a topic, 80 bytes each, in memory as in a snapshot."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from oncegate.ledgers.catalog.changes import Location
from oncegate.packed import PackedList

# First offset, rows; epoch, counter, offset, length and SHA-256 of the location.
_RANGE = "<QQQQQQ32s"
_RANGE_DTYPE = np.dtype(
    {"names": ["counter", "offset", "length"], "formats": ["<u8"] * 3, "offsets": [24, 32, 40], "itemsize": 80}
)
RANGE_BYTES = struct.calcsize(_RANGE)
NO_OFFSET = 2**64 - 1


@dataclass(frozen=True, slots=True)
class PublishedRange:
    """Describes a published range: its rows begin at `first_offset`, its bytes are at `location`."""

    first_offset: int
    rows: int
    location: Location


class PublishedRanges:
    """Lists ranges in the order of their offsets, from `low`, the lowest kept, up to `high`, the next to be given."""

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
        """Makes a range the next rows."""
        self._ranges.append(self.high, rows, at.epoch, at.counter, at.offset, at.length, at.sha256)
        self.high += rows

    def extend(self, data: bytes) -> None:
        """Adds ranges as `frozen` gave them. ValueError: these are none."""
        self._ranges.extend(data)
        if len(self):
            last = self[len(self) - 1]
            self.high = last.first_offset + last.rows

    def below(self, before_offset: int) -> int:
        """Counts the ranges that lie wholly below the offset."""
        if before_offset >= self.high:
            return len(self)
        return max(0, self._ranges.not_above(before_offset) - 1)

    def trim(self, before_offset: int) -> list[Location]:
        """Forgets the ranges that lie wholly below the offset; returns where they are."""
        count = self.below(before_offset)
        gone = [self[place].location for place in range(count)]
        self._ranges.drop(count)
        self.low = self[0].first_offset if len(self) else self.high
        return gone

    def covering(self, offset: int, max_rows: int, max_bytes: int) -> list[PublishedRange]:
        """Finds whole ranges until `max_rows` from `offset` on or `max_bytes` are covered; `offset`: `low` or more."""
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
        """Returns the lowest offset of a location with this counter that has bytes; NO_OFFSET: there is none."""
        lowest = NO_OFFSET
        for block in self.frozen():
            ranges = np.frombuffer(block, _RANGE_DTYPE)
            named = ranges["offset"][(ranges["length"] > 0) & (ranges["counter"] == counter)]
            lowest = min(lowest, int(named.min(initial=NO_OFFSET)))
        return lowest

    def locations(self) -> Iterator[Location]:
        """Yields where the ranges are."""
        for _, _, *at in self._ranges:
            yield Location(*at)

    def frozen(self) -> list[bytes]:
        """Returns all of them as they are now, in blocks."""
        return self._ranges.frozen()
