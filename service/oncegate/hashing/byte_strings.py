"""Byte strings in one buffer, like an Arrow string or binary array; and the joining of several columns into one.

An id or a payload of several columns is joined by an injective encoding, computed over arrays:

    per column:  type u8 | length u32 LE | the bytes          type: 0 null, 1 string, 2 binary

Each item has its length, so different rows of columns never give the same bytes: ("a", "bc") and ("ab", "c") differ, as
do a string and a binary of the same bytes, and one column and two. A joined id is fingerprinted like any other. Golden
vectors in tests/golden fix the encoding, since a changed byte is another id. An id never contains null; a payload may.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import NullId

_CELL = np.dtype("V16")


@dataclass(frozen=True, slots=True)
class Octets:
    """Byte strings; string i is `data[starts[i] : starts[i] + lengths[i]]`. data: uint8; the others: int64[n].

    stride: the length of every string if all are equally long and contiguous, else None.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    stride: int | None

    @classmethod
    def between(cls, data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> "Octets":
        """Returns the strings between consecutive offsets; there are n + 1 offsets."""
        lengths = np.diff(offsets)
        equal = len(lengths) > 0 and lengths[0] == lengths[-1] and lengths.min() == lengths.max()
        return cls(data, offsets[:-1], lengths, int(lengths[0]) if equal else None)

    @classmethod
    def of_width(cls, data: NDArray[np.uint8], width: int, rows: int, start: int = 0) -> "Octets":
        """Returns `rows` consecutive strings of `width` bytes each, beginning at byte `start`."""
        starts = np.arange(rows, dtype=np.int64) * width + start
        return cls(data, starts, np.broadcast_to(np.int64(width), rows), width)

    @classmethod
    def of_array(cls, array: pa.Array) -> "Octets":
        """Returns the values of an Arrow string or binary array of any kind, without a copy if its layout allows that.

        The string of a null is unspecified. Raises TypeError for other types.
        """
        array = plain(array)
        if pa.types.is_fixed_size_binary(array.type):
            width = array.type.byte_width
            return cls.of_width(_bytes_of(array.buffers()[1]), width, len(array), array.offset * width)
        _, offsets, data = array.buffers()
        return cls.between(_bytes_of(data), _offsets_of(array, offsets))

    def pick(self, rows: NDArray[np.intp]) -> "Octets":
        """Returns the strings with these indexes, in their order."""
        return Octets(self.data, self.starts.take(rows), self.lengths.take(rows), None)

    def messages(self) -> Iterator[bytes]:
        """Yields the strings as `bytes` objects, for few or long strings."""
        for start, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True):
            yield self.data[start : start + length].tobytes()

    def strided(self, rows: slice, at: int, taken: int) -> NDArray[np.uint64]:
        """Returns bytes `at` to `at + taken` (at most 16) of some equally long strings, zero-filled: (rows, 2)."""
        count = rows.stop - rows.start
        cells = np.empty((count, 2), np.uint64) if taken == 16 else np.zeros((count, 2), np.uint64)
        if taken and self.stride:
            width = f"V{taken}"
            source = np.ndarray(count, width, self.data.data, int(self.starts[rows.start]) + at, (self.stride,))
            np.ndarray(count, width, cells.data, 0, (16,))[:] = source
        return cells

    def gathered(self, first: int, at: int) -> NDArray[np.uint64]:
        """Returns the 16 bytes at `at` of each string, beginning with string `first`: shape (n - first, 2).

        After the end of a string follow bytes of other strings or zeros; the caller masks them.
        """
        starts = self.starts[first:] + at
        tail_start = len(self.data) - 16
        if tail_start < 0:
            return Octets(np.append(self.data, np.zeros(16, np.uint8)), starts, starts, None).gathered(0, 0)
        # One 16-byte item per byte of the buffer: numpy moves such items as a whole, ten times faster than bytes.
        windows = np.ndarray(tail_start + 1, _CELL, self.data.data, 0, (1,))
        cells = windows[np.minimum(starts, tail_start)]
        if len(starts) and starts.max() > tail_start:
            late = np.flatnonzero(starts > tail_start)
            tail = np.zeros(32, np.uint8)
            tail[:16] = self.data[tail_start:]
            cells[late] = np.ndarray(17, _CELL, tail.data, 0, (1,))[starts[late] - tail_start]
        return cells.view(np.uint64).reshape(-1, 2)


def plain(array: pa.Array) -> pa.Array:
    """Returns a string or binary array as a type with offsets or a fixed width. Raises TypeError for other types."""
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_string_view(kind):
        return array.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    if is_text(kind) or is_binary(kind):
        return array
    raise TypeError(f"{kind} is neither string nor binary")


def is_text(kind: pa.DataType) -> bool:
    """Returns whether this is one of Arrow's string types."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Returns whether this is one of Arrow's binary types, including fixed-size binary but excluding decimals, which
    share its class.
    """
    types = pa.types
    variable = types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind)
    return bool(variable or (types.is_fixed_size_binary(kind) and not types.is_decimal(kind)))


def _bytes_of(buffer: pa.Buffer | None) -> NDArray[np.uint8]:
    """Returns the bytes of a buffer, which Arrow omits if it is empty."""
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def _offsets_of(array: pa.Array, buffer: pa.Buffer | None) -> NDArray[np.int64]:
    """Returns the len + 1 offsets of a (sliced) array; an empty array may have none."""
    if buffer is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int64)
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = np.frombuffer(buffer, np.int64 if large else np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets.astype(np.int64, copy=False)


NULL, STRING, BINARY = 0, 1, 2

_HEAD = np.dtype([("type", "u1"), ("length", "<u4")])
_LARGE = pa.large_binary()


def join(columns: Sequence[pa.Array], nulls: bool = False) -> pa.LargeBinaryArray:
    """Returns one id per row from one or more string or binary columns of equal length and any layout.

    nulls: accept null values.

    Raises:
        NullId: a value is null and `nulls` is False. (Empty values are accepted: part of an id may be empty.)
        TypeError: a column of another type.
        ValueError: no column, or columns of different lengths.
    """
    if not columns:
        raise ValueError("no column to join")
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of different lengths: {[len(column) for column in columns]}")
    pieces = [piece for column in map(plain, columns) for piece in _item(column, nulls)]
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", _LARGE))


def _item(column: pa.Array, nulls: bool) -> tuple[pa.Array, pa.Array]:
    if column.null_count and not nulls:
        raise NullId(f"{column.null_count} of {len(column)} ids have a null column")
    heads = np.empty(len(column), _HEAD)
    heads["type"] = STRING if is_text(column.type) else BINARY
    heads["length"] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    if column.null_count:
        heads["type"][pc.is_null(column).to_numpy(zero_copy_only=False)] = NULL
    return records(heads), pc.fill_null(column.cast(_LARGE), b"")


def records(array: np.ndarray[tuple[int], np.dtype[np.void]]) -> pa.LargeBinaryArray:
    """Returns each item of a contiguous numpy array as a binary value; shares its memory."""
    offsets = np.arange(len(array) + 1, dtype=np.int64) * array.dtype.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(array.view(np.uint8) if array.dtype.itemsize else b"")]
    return pa.LargeBinaryArray.from_buffers(_LARGE, len(array), buffers)
