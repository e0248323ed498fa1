"""Several columns as one id: an injective encoding, computed with arrays.

    per column:  type u8 | length u32 LE | the bytes          type: 0 null, 1 string, 2 binary

Each item says how long it is, so that no two different rows of columns give the same bytes: ("a", "bc") and
("ab", "c") differ, so do a string and the binary of its bytes, and one column and two. A joined id is fingerprinted
like any other; golden vectors in tests/golden hold the encoding fast, for a changed byte is another id. Null is part
of no id, but may be part of a payload.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.core.errors import NullId
from oncegate.hashing.byte_strings import is_text, plain

NULL, STRING, BINARY = 0, 1, 2

_HEAD = np.dtype([("type", "u1"), ("length", "<u4")])
_LARGE = pa.large_binary()


def join(columns: Sequence[pa.Array], nulls: bool = False) -> pa.LargeBinaryArray:
    """Returns one id per row from one or more string or binary columns of equal length and any layout; `nulls` are
    taken.

    Raises:
        NullId: a value is null, and those are not taken. (An empty one is not looked at: part of an id may be empty.)
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
    """Returns the bytes of each item of a contiguous numpy array, as one binary value each; shares its memory."""
    offsets = np.arange(len(array) + 1, dtype=np.int64) * array.dtype.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(array.view(np.uint8) if array.dtype.itemsize else b"")]
    return pa.LargeBinaryArray.from_buffers(_LARGE, len(array), buffers)
