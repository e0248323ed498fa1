"""Implements a list of small records packed as bytes, without a Python object per record; a copy shares the blocks."""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

# Large enough that a block's own overhead is negligible, small enough to be copied in microseconds.
BLOCK_RECORDS = 512

_first = struct.Struct("<Q").unpack_from
DroppedNames = tuple[list[bytes], int]


class PackedList:
    """A list of records of one layout, whose first field is a non-decreasing u64. Appended at the end, dropped at the
    front.

    All blocks but the last are full and immutable, so `frozen` copies none of them. `_start`: number of records of the
    first block that were dropped.
    """

    __slots__ = ("_full", "_layout", "_size_bytes", "_start", "_tail")

    def __init__(self, layout: str, data: bytes = b"") -> None:
        """Creates a list of the records in `data`. layout: a `struct` format. Raises ValueError if they are not whole
        records.
        """
        self._layout = layout
        self._size_bytes = struct.calcsize(layout)
        self._full: list[bytes] = []
        self._tail = bytearray()
        self._start = 0
        self.extend(data)

    def __len__(self) -> int:
        return len(self._full) * BLOCK_RECORDS + len(self._tail) // self._size_bytes - self._start

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return struct.unpack_from(self._layout, *self._at(index))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for block in self.frozen():
            yield from struct.iter_unpack(self._layout, block)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PackedList) and b"".join(self.frozen()) == b"".join(other.frozen())

    __hash__ = None  # type: ignore[assignment]

    def append(self, *values: Any) -> None:
        """Appends one record. Raises struct.error if a value does not fit; then nothing was added."""
        self._tail += struct.pack(self._layout, *values)
        self._fill()

    def extend(self, data: bytes) -> None:
        """Appends the records in `data`. Raises ValueError if they are not whole records; then nothing was added."""
        if len(data) % self._size_bytes:
            raise ValueError(f"{len(data)} bytes are not whole records of {self._size_bytes} bytes")
        block_bytes = BLOCK_RECORDS * self._size_bytes
        for at in range(0, len(data), block_bytes):
            room = block_bytes - len(self._tail)
            self._tail += data[at : at + min(room, block_bytes)]
            self._fill()
            self._tail += data[at + room : at + block_bytes]

    def _fill(self) -> None:
        if len(self._tail) == BLOCK_RECORDS * self._size_bytes:
            self._full.append(bytes(self._tail))
            self._tail = bytearray()

    def pop(self) -> None:
        """Undoes the last `append`."""
        if not self._tail:
            self._tail = bytearray(self._full.pop())
        del self._tail[-self._size_bytes :]

    def drop(self, count: int) -> DroppedNames:
        """Drops the first `count` records. Returns the argument for `put_back`, which requires that later changes are
        undone.
        """
        start, blocks = self._start, min(len(self._full), (self._start + count) // BLOCK_RECORDS)
        gone = self._full[:blocks]
        del self._full[:blocks]
        self._start = start + count - blocks * BLOCK_RECORDS
        return gone, start

    def put_back(self, dropped: DroppedNames) -> None:
        """Undoes a `drop`."""
        self._full[:0], self._start = dropped

    def not_above(self, value: int) -> int:
        """Counts the records whose first field is at most `value`."""
        size_bytes = self._size_bytes
        later_blocks = range(1, len(self._full) + bool(self._tail))
        whole = bisect_right(later_blocks, value, key=lambda number: _first(self._block(number), 0)[0])
        block = self._block(whole)
        first = 0 if whole else self._start
        records = range(first, len(block) // size_bytes)
        within = bisect_right(records, value, key=lambda record: _first(block, record * size_bytes)[0])
        return whole * BLOCK_RECORDS + first + within - self._start

    def frozen(self) -> list[bytes]:
        """Returns all current records, in blocks."""
        blocks = [*self._full, bytes(self._tail)]
        blocks[0] = blocks[0][self._start * self._size_bytes :]
        return blocks

    def _at(self, index: int) -> tuple[bytes | bytearray, int]:
        block, within = divmod(index + self._start, BLOCK_RECORDS)
        return self._block(block), within * self._size_bytes

    def _block(self, number: int) -> bytes | bytearray:
        return self._full[number] if number < len(self._full) else self._tail
