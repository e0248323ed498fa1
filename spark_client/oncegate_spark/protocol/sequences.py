"""Converts sequences from the types that programs use to one uint64 column. No I/O."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import BadId

Sequences = Iterable[int]  # or an Arrow array of whole numbers; strictly increasing


def sequence_array(sequences: Any) -> pa.UInt64Array:
    """Returns strictly increasing sequences as uint64[n]. Raises BadId for others; nothing was sent."""
    column = uint64_column(sequences, "sequences")
    if not increasing(column):
        raise BadId(
            "sequences must be the positions of records in their source, in order, each greater than the previous one; "
            "nothing was written"
        )
    return column


def uint64_column(values: Any, name: str) -> pa.UInt64Array:
    """Returns non-negative integers as uint64[n], in order. Raises BadId for nulls, negatives and other types."""
    try:
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
            raise BadId(f"{name} is of type {column.type}; sequences must be whole numbers; nothing was written")
        column = column.cast(pa.uint64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
        raise BadId(
            f"{name}: sequences must be whole numbers from 0 to 2^64 - 1: {error}; nothing was written"
        ) from error
    if column.null_count:
        raise BadId(f"{name}: {column.null_count} of {len(column)} rows have no sequence; nothing was written")
    return column


def increasing(column: pa.UInt64Array) -> bool:
    """True if each sequence is greater than the previous one."""
    return len(column) < 2 or bool(pc.all(pc.greater(column.slice(1), column.slice(0, len(column) - 1))).as_py())


def packed(column: pa.UInt64Array) -> bytes:
    """Encodes sequences as 8 little-endian bytes each."""
    data = column.buffers()[1]
    return b"" if data is None else data.to_pybytes()[8 * column.offset : 8 * (column.offset + len(column))]
