"""Converts ids from the types that programs use to Arrow columns, and checks the types. No I/O."""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncegate_spark.errors import BadId, Refused
from oncegate_spark.protocol.python_values import array_of, type_name

ID_TYPES = "strings, binary, integers, decimals, dates or timestamps"
_ARROW = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table
# Values of one type, as in `python_values`, or tuples of them; an Arrow array; or a table of the id columns.
Ids = Iterable[Any]


def listed(ids: Ids) -> Any:
    """Returns ids that can be iterated twice: an Arrow array or table unchanged, anything else as a list.

    Raises BadId for a single id, and for a dict or DataFrame, which iterates over its column names.
    """
    if isinstance(ids, _ARROW):
        return ids
    if isinstance(ids, str | bytes | bytearray | memoryview):
        raise BadId(f"ids must be a list, and {ids[:20]!r} is a single id; nothing was written")
    if isinstance(ids, Mapping) or hasattr(ids, "columns"):
        raise BadId(
            f"ids must be a list, and iterating over {type_name(ids)} gives column names: write list(rows['order']) "
            "for "
            "one column, list(zip(rows['order'], rows['line'])) for two, or a pyarrow.Table; nothing was written"
        )
    if not isinstance(ids, Iterable):
        raise BadId(f"ids must be a list, and this is of type {type_name(ids)}; nothing was written")
    return list(ids)


def id_columns(ids: Any) -> list[pa.Array]:
    """Converts ids from `listed` to columns of equal length. Raises BadId for invalid ids; nothing was sent."""
    return checked_columns(columns_in(ids, "ids", BadId))


def columns_in(values: Any, what: str, refused: type[Refused]) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Returns ids or payloads as columns: those of a table, those of tuples, or a single one.

    The keys are for error messages. Raises `refused` for values without a common type; `what`: "ids" or "payloads".
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
                f"{what} of several columns must be tuples of one length: {what}[{n}] is {shown}, and {what}[0] is a "
                f"tuple of {width}; nothing was written"
            )
    return {
        f"{what}[…][{number}]": array_of([value[number] for value in values], _place(what, number), refused)
        for number in range(width)
    }


def _place(what: str, column: int) -> Callable[[int], str]:
    return lambda n: f"{what}[{n}][{column}]"


def checked_columns(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> list[pa.Array]:
    """Returns the id columns: strings and binary unchanged, integers as decimal digits.

    Decimals, dates and timestamps are sent as they are: the gateway computes their canonical text, which does not
    depend on the session's time zone. Raises BadId like `check_ids`.
    """
    check_ids(columns)
    return [_id_column(column) for column in columns.values()]


def check_ids(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> None:
    """Raises BadId for column types that cannot be ids, for nulls, and for empty ids; nothing was sent.

    All rows with a null or empty id would share one identity: the first would be written and the rest lost. For these
    `extra` has `lacking` ("null" or "empty") and `columns`, the names of the columns.
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
        f"the first is row {pc.index(lacking, True).as_py()}; rows without an id cannot be told apart: leave them "
        "out; nothing was written",
        lacking=what,
        columns=names,
    )


def text_of(value: Any) -> str | bytes:
    """Returns one column of an id as text or bytes. Raises BadId for types whose text only the gateway computes."""
    made = array_of([value], lambda n: "the id")
    made = made.cast(pa.string()) if pa.types.is_integer(made.type) else made
    if not (pa.types.is_date32(made.type) or _is_text(made.type) or _is_bytes(made.type)) or value is None:
        raise BadId(f"an id must be text here, and {value!r} is of type {type_name(value)}; nothing was sent")
    text = made[0].as_py()
    return text if isinstance(text, str | bytes) else text.isoformat()


def is_id(kind: pa.DataType) -> bool:
    """True if a column of this type can be an id or a payload."""
    return _is_text(kind) or _is_bytes(kind) or _is_number_or_time(kind)


def _is_number_or_time(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_decimal(kind) or types.is_date(kind) or types.is_timestamp(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))
