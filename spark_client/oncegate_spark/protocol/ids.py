"""Ids in whatever form a program has them, as columns, and which columns can be ids. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import BadId, Refused
from oncegate_spark.protocol.python_values import array_of, type_name

ID_TYPES = "strings, binary, integers, decimals, dates or timestamps"
_ARROW = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table
Ids = Iterable[
    Any
]  # values of one type, as `python_values`, or tuples of them; an Arrow array; a table of the id columns


def listed(ids: Ids) -> Any:
    """Returns ids that can be iterated twice: an Arrow array or table as it is, else a list.

    Raises BadId for one id, and for a dict or DataFrame, whose iteration gives the names of its columns.
    """
    if isinstance(ids, _ARROW):
        return ids
    if isinstance(ids, str | bytes | bytearray | memoryview):
        raise BadId(f"ids are given as a list, and {ids[:20]!r} is one of them; nothing was written")
    if isinstance(ids, Mapping) or hasattr(ids, "columns"):
        raise BadId(
            f"ids are given as a list, and a list of {type_name(ids)} has its names: write list(rows['order']) for "
            "one column, list(zip(rows['order'], rows['line'])) for two, or a pyarrow.Table; nothing was written"
        )
    if not isinstance(ids, Iterable):
        raise BadId(f"ids are given as a list, and this is of type {type_name(ids)}; nothing was written")
    return list(ids)


def id_columns(ids: Any) -> list[pa.Array]:
    """Returns the columns, of equal length, of ids as `listed` returns them.

    Raises BadId where they cannot be ids; nothing was sent.
    """
    return checked_columns(columns_in(ids, "ids", BadId))


def columns_in(values: Any, what: str, refused: type[Refused]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Returns ids or payloads by columns: those of a table, those of tuples, or one.

    The keys are for error messages. Raises `refused` for values that have no type in common; `what`: ids or payloads.
    """
    if isinstance(values, pa.RecordBatch | pa.Table):
        names = values.schema.names
        if not names:
            raise refused(f"{what} is a table without columns; nothing was written")
        unique = len(set(names)) == len(names)
        return {name if unique else f"{what}[{n}] ({name})": values.column(n) for n, name in enumerate(names)}
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return {what: values}
    if not values or not isinstance(values[0], tuple):
        return {what: array_of(values, lambda n: f"{what}[{n}]", refused)}
    width = len(values[0])
    for n, value in enumerate(values):
        if not isinstance(value, tuple) or len(value) != width or not width:
            shown = f"a tuple of {len(value)}" if isinstance(value, tuple) else f"of type {type_name(value)}"
            raise refused(
                f"{what} of several columns are tuples of one length: {what}[{n}] is {shown}, and {what}[0] is a "
                f"tuple of {width}; nothing was written"
            )
    return {
        f"{what}[…][{number}]": array_of([value[number] for value in values], _place(what, number), refused)
        for number in range(width)
    }


def _place(what: str, column: int) -> Callable[[int], str]:
    return lambda n: f"{what}[{n}][{column}]"


def checked_columns(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Returns the columns that are the ids: strings and binary as they are, integers as decimal digits. Of decimals,
    dates and timestamps the gateway makes the canonical text, which is the same whatever the session's time zone.

    Raises BadId as `check_ids`.
    """
    check_ids(columns)
    return [_id_column(column) for column in columns.values()]


def check_ids(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
    """Raises BadId for types that cannot be ids, a null in any column, and ids that are empty: one identity for all
    of those rows would write the first and lose the rest.

    Of a null or empty id `extra` has `lacking`, null or empty, and `columns`, the names of the columns.
    """
    for name, column in columns.items():
        if not pa.types.is_integer(column.type) and not is_id(column.type):
            raise BadId(
                f"id column {name} is of type {column.type}; ids are {ID_TYPES}: cast it to one of these; nothing was "
                "written"
            )
    for name, column in columns.items():
        if column.null_count:
            _refuse("null", pc.is_null(column), [name])
    if any(_is_number_or_time(column.type) for column in columns.values()):
        return  # whose text is never empty
    empty = reduce(pc.and_, (pc.equal(pc.binary_length(column), 0) for column in columns.values()))
    if pc.any(empty).as_py():
        _refuse("empty", empty, list(columns))


def _id_column(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.cast(pa.string()) if pa.types.is_integer(whole.type) else whole


def _refuse(what: str, lacking: pa.BooleanArray | pa.ChunkedArray, names: list[str]) -> None:
    raise BadId(
        f"id column {', '.join(names)}: {pc.sum(lacking).as_py()} of {len(lacking)} rows have an id that is {what}, "
        f"the first is row {pc.index(lacking, True).as_py()}, and rows without an id cannot be told apart: leave them "
        "out; nothing was written",
        lacking=what,
        columns=names,
    )


def text_of(value: Any) -> str | bytes:
    """Returns the text or bytes of one column of an id. Raises BadId for a time, whose text the gateway makes."""
    made = array_of([value], lambda n: "the id")
    made = made.cast(pa.string()) if pa.types.is_integer(made.type) else made
    if not (pa.types.is_date32(made.type) or _is_text(made.type) or _is_bytes(made.type)) or value is None:
        raise BadId(f"an id is given as its text here, and {value!r} is of type {type_name(value)}; nothing was sent")
    text = made[0].as_py()
    return text if isinstance(text, str | bytes) else text.isoformat()


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
