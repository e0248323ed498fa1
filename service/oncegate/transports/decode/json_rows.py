"""Makes Arrow rows of JSON records, by the topic's schema or, where there is none yet, by what they look like.

Binary is base64; times, dates and decimals are their text; a column that a record does not name is null there. What
would end the process inside pyarrow, or take it minutes, is refused before it is seen there: maps, deep nesting.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oncegate.core.errors import BadRequest, SchemaMismatch, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows, Schema
from oncegate.engine.usecases.partitioning import stream
from oncegate.transports.decode.arrow_ipc import leaves, read_rows
from oncegate.transports.decode.json_scan import DEPTH_MAX

Record = dict[str, Any]
# Some 5 ms, where they are nested.
CELLS_AT_ONCE = 50_000


def rows_of(records: Sequence[Record], schema: Schema | None, limits: Limits) -> Rows:
    """Makes rows of records, and checks them as those of an Arrow body.

    Raises BadRequest; SchemaMismatch with the column that does not fit the topic's; TooLarge."""
    check_shape(records, 0 if schema is None else len(schema), limits)
    try:
        table = _guessed(records) if schema is None else _typed(records, schema)
        data = stream(table.schema, table.combine_chunks().to_batches())
    except pa.ArrowException as error:
        raise BadRequest(f"the records cannot be rows: {str(error).splitlines()[0]}") from error
    return read_rows(data, limits)


def warm_up() -> None:
    """Makes rows once, so that no request waits for what the library loads then."""
    rows_of([{"a": 1, "b": ["x"]}], None, Limits())


def check_shape(records: Sequence[Record], known: int, limits: Limits) -> None:
    """Refuses records that would become too many columns or cells, or are nested too deep, before anything is made.

    `known`: columns that the topic has already. A cell is a place in a column, null or not: what is inside of lists
    and objects counts as the columns that Arrow makes of it. Raises BadRequest, TooLarge.
    """
    columns, cells = 0, known * len(records)
    level: list[tuple[int, Sequence[Any]]] = [(len(records), records)] if records else []
    for _ in range(DEPTH_MAX):
        inside: list[tuple[int, Sequence[Any]]] = []
        for length, values in level:
            found = _members(values, limits.columns_per_request - columns)
            columns, cells = columns + len(found), cells + len(found) * length
            if columns > limits.columns_per_request or cells > limits.json_cells:
                raise TooLarge(_TOO_WIDE.format(limits.columns_per_request, limits.json_cells))
            inside += [part for nested in found.values() for part in _parts(nested, length)]
        if not inside:
            return
        level = inside
    raise BadRequest(f"the records are nested more than {DEPTH_MAX} deep")


_TOO_WIDE = (
    "the records have more than {} columns, or more than {} cells (rows times columns, with those that they leave "
    "out): send fewer at once, or Arrow; nothing was written"
)


def _members(values: Sequence[Any], columns_max: int) -> dict[str, Sequence[Any]]:
    """What objects, or lists, have inside, by the members' names: lists and objects alone.

    It ends early at too many names."""
    if isinstance(values[0], list):
        return {"": values}
    found: dict[str, list[Any]] = {}
    for value in values:
        for name, item in value.items():
            nested = found.setdefault(name, [])
            if isinstance(item, list | dict):
                nested.append(item)
        if len(found) > columns_max:
            break
    return {**found}


def _parts(nested: Sequence[Any], length: int) -> list[tuple[int, Sequence[Any]]]:
    """The objects among values, with the length of their columns; the objects and the lists in lists, with theirs."""
    objects = [value for value in nested if isinstance(value, dict)]
    items = [item for value in nested if isinstance(value, list) for item in value]
    found: list[tuple[int, list[Any]]] = [(length, objects)]
    found += [(len(items), [item for item in items if isinstance(item, kind)]) for kind in (dict, list)]
    return [(size, part) for size, part in found if part]


def _guessed(records: Sequence[Record]) -> pa.Table:
    names = list(dict.fromkeys(name for record in records for name in record))
    try:
        columns = {name: _array([record.get(name) for record in records]) for name in names}
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise BadRequest(f"the records' types cannot be told: {error}; make the topic with a schema first") from error
    for name, column in columns.items():
        if pa.types.is_null(column.type):
            raise BadRequest(f"column {name!r} has no value to tell its type by; make the topic with a schema first")
    return pa.table(columns)


def _typed(records: Sequence[Record], schema: Schema) -> pa.Table:
    strange = {name for record in records for name in record} - set(schema.names)
    if strange:
        raise SchemaMismatch(f"the topic has no column {', '.join(sorted(strange))}; it has {', '.join(schema.names)}")
    for field in schema:
        if _has_map(field.type):
            raise BadRequest(
                f"column {field.name!r} has the type {field.type}: JSON has no maps, send these rows as Arrow"
            )
    columns = [_column(field, [record.get(field.name) for record in records]) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _array(values: Sequence[Any], kind: Any = None) -> Any:
    """A column of values, made in pieces: the library holds the interpreter for each."""
    kind = pa.infer_type(values) if kind is None else kind
    rows = max(1, CELLS_AT_ONCE // sum(1 for _ in leaves(kind)))
    starts = range(0, max(len(values), 1), rows)
    return pa.chunked_array([pa.array(values[start : start + rows], kind) for start in starts], kind)


def _column(field: Any, values: list[Any]) -> Any:
    try:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            values = [None if value is None else base64.b64decode(value, validate=True) for value in values]
        if _is_text_only(field.type) and any(isinstance(value, str) for value in values):
            return _array(values, pa.string()).cast(field.type)
        return _array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise SchemaMismatch(f"column {field.name!r} is of type {field.type}: {error}") from error
    except (binascii.Error, TypeError, ValueError) as error:
        raise SchemaMismatch(f"column {field.name!r} is of type {field.type}, base64 is wanted: {error}") from error


def _has_map(kind: Any) -> bool:
    inside = range(kind.num_fields) if pa.types.is_nested(kind) else ()
    return bool(pa.types.is_map(kind) or any(_has_map(kind.field(n).type) for n in inside))


def _is_text_only(kind: Any) -> bool:
    """Types that JSON has only as text."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))
