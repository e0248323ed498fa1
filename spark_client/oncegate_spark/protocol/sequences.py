"""Sequences in whatever form a program has them, as one column of 64-bit numbers. No I/O."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import BadId

Sequences = Iterable[int]  # or an Arrow array of whole numbers; strictly increasing


def sequence_array(sequences: Any) -> pa.UInt64Array:
    """uint64[n], strictly increasing. Raises BadId for what is none; nothing was sent."""
    column = uint64_column(sequences, "sequences")
    if not increasing(column):
        raise BadId(
            "sequences are the places of records in their source, in order, each greater than the one before; "
            "nothing was written"
        )
    return column


def uint64_column(values: Any, name: str) -> pa.UInt64Array:
    """uint64[n] of whole numbers from 0 on, in the order given. Raises BadId for nulls, negatives and other types."""
    try:
        column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
            raise BadId(f"{name} is of type {column.type}; sequences are whole numbers; nothing was written")
        column = column.cast(pa.uint64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
        raise BadId(f"{name}: whole numbers from 0 to 2^64 - 1 are wanted: {error}; nothing was written") from error
    if column.null_count:
        raise BadId(f"{name}: {column.null_count} of {len(column)} rows have none; nothing was written")
    return column


def increasing(column: pa.UInt64Array) -> bool:
    """Each is greater than the one before."""
    return len(column) < 2 or bool(pc.all(pc.greater(column.slice(1), column.slice(0, len(column) - 1))).as_py())


def packed(column: pa.UInt64Array) -> bytes:
    """Eight little-endian bytes each, as the gateway reads them."""
    data = column.buffers()[1]
    return b"" if data is None else data.to_pybytes()[8 * column.offset : 8 * (column.offset + len(column))]
