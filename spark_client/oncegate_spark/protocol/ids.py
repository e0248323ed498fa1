"""Ids in whatever form a program has them, as columns, and which columns can be ids. No I/O."""

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import BadId

ID_TYPES = "strings, binary, integers, decimals, dates or timestamps"
_ARROW = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table
Ids = Iterable[Any]  # str, bytes, int, or tuples of them; an Arrow array; a table of the id columns


def listed(ids: Ids) -> Any:
    """Ids that can be gone through twice: an Arrow array or table as it is, else a list."""
    if isinstance(ids, str | bytes):
        raise BadId(f"ids are given as a list, and {ids[:20]!r} is one of them; nothing was written")
    return ids if isinstance(ids, _ARROW) else list(ids)


def id_columns(ids: Any) -> list[pa.Array]:
    """Columns of equal length, from what `listed` gives. Raises BadId where they cannot be ids; nothing was sent."""
    if isinstance(ids, pa.RecordBatch | pa.Table):
        return checked_columns({name: ids.column(n) for n, name in enumerate(ids.schema.names)})
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        return checked_columns({"id": ids})
    if ids and isinstance(ids[0], tuple):
        if any(not isinstance(one, tuple) or len(one) != len(ids[0]) for one in ids):
            raise BadId("ids of several columns are tuples of one length; nothing was written")
        return checked_columns({f"id[{n}]": array_of(part) for n, part in enumerate(zip(*ids, strict=True))})
    return checked_columns({"id": array_of(ids)})


def array_of(values: Any) -> pa.Array:
    """Values of one type as an Arrow array; whole numbers of more than 64 bits as their text. Raises BadId."""
    try:
        array = pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadId(f"ids must be of one type, all str or all bytes: {error}; nothing was written") from error
    except OverflowError:
        array = array_of([str(one) if type(one) is int else one for one in values])
    except UnicodeEncodeError as error:
        raise BadId(f"an id is no text of Unicode, which UTF-8 could write: {error}; nothing was written") from error
    return array.cast(pa.string()) if pa.types.is_null(array.type) else array


def checked_columns(columns: Mapping[str, pa.Array]) -> list[pa.Array]:
    """The columns that are the ids: strings and binary as they are, integers as canonical decimal strings. Of decimals,
    dates and timestamps the gateway makes the canonical text, which is the same whatever the session's time zone.

    Raises BadId as `check_ids`.
    """
    check_ids(columns)
    return [_id_column(column) for column in columns.values()]


def check_ids(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
    """Raises BadId for types that cannot be ids, a null in any column, and ids that are empty: one identity for all
    of those rows would write the first and lose the rest.
    """
    for name, column in columns.items():
        if not pa.types.is_integer(column.type) and not is_id(column.type):
            raise BadId(f"id column {name} is of type {column.type}: {cast_line(name)}; nothing was written")
    for name, column in columns.items():
        if column.null_count:
            _refuse("null", column.null_count, len(column), name, f'F.col("{name}").isNotNull()')
    if any(_is_number_or_time(column.type) for column in columns.values()):
        return  # whose text is never empty
    empty = reduce(pc.and_, (pc.equal(pc.binary_length(column), 0) for column in columns.values()))
    if pc.any(empty).as_py():
        some = " | ".join(f'(F.length("{name}") > 0)' for name in columns)
        _refuse("empty", pc.sum(empty).as_py(), len(empty), ", ".join(columns), some)


def _id_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.cast(pa.string()) if pa.types.is_integer(whole.type) else whole


def _refuse(what: str, count: int, rows: int, name: str, condition: str) -> None:
    raise BadId(
        f"id column {name}: {count} of {rows} rows have an id that is {what}, and rows without an id cannot be told "
        f"apart. Leave them out first: df.where({condition})"
    )


def cast_line(name: str) -> str:
    """The line that makes an id of a column of another type, for the end of an error's text."""
    return f'ids are {ID_TYPES}; write df.withColumn("{name}", F.col("{name}").cast("string"))'


def is_id(kind: pa.DataType) -> bool:
    """Whether a column of this type can be an id, or the payload of one."""
    return _is_text(kind) or _is_bytes(kind) or _is_number_or_time(kind)


def _is_number_or_time(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
