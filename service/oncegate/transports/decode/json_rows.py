"""Makes Arrow rows of JSON records, by the topic's schema or, where there is none yet, by what they look like.

Binary is base64; times, dates and decimals are their text; a column that a record does not name is null there. What
would end the process inside pyarrow, or take it minutes, is refused before it is seen there: maps, deep nesting.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oncegate.core.errors import BadRequest
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows, Schema
from oncegate.engine.usecases.partitioning import stream
from oncegate.transports.decode.arrow_ipc import read_rows
from oncegate.transports.decode.json_scan import DEPTH_MAX

Record = dict[str, Any]


def rows_of(records: Sequence[Record], schema: Schema | None, limits: Limits) -> Rows:
    """Makes rows of records, and checks them as those of an Arrow body.

    Raises BadRequest with the column that does not fit; TooLarge."""
    _check_depth(records)
    try:
        table = _guessed(records) if schema is None else _typed(records, schema)
        data = stream(table.schema, table.combine_chunks().to_batches())
    except pa.ArrowException as error:
        raise BadRequest(f"the records cannot be rows: {str(error).splitlines()[0]}") from error
    return read_rows(data, limits)


def _check_depth(records: Sequence[Record]) -> None:
    level: list[Any] = [value for record in records for value in record.values() if isinstance(value, list | dict)]
    depth = 1
    while level:
        depth += 1
        if depth > DEPTH_MAX:
            raise BadRequest(f"the records are nested more than {DEPTH_MAX} deep")
        inside = (item for value in level for item in (value.values() if isinstance(value, dict) else value))
        level = [item for item in inside if isinstance(item, list | dict)]


def _guessed(records: Sequence[Record]) -> pa.Table:
    names = list(dict.fromkeys(name for record in records for name in record))
    try:
        columns = {name: pa.array([record.get(name) for record in records]) for name in names}
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise BadRequest(f"the records' types cannot be told: {error}; make the topic with a schema first") from error
    for name, column in columns.items():
        if pa.types.is_null(column.type):
            raise BadRequest(f"column {name!r} has no value to tell its type by; make the topic with a schema first")
    return pa.table(columns)


def _typed(records: Sequence[Record], schema: Schema) -> pa.Table:
    strange = {name for record in records for name in record} - set(schema.names)
    if strange:
        raise BadRequest(f"the topic has no column {', '.join(sorted(strange))}; it has {', '.join(schema.names)}")
    for field in schema:
        if _has_map(field.type):
            raise BadRequest(
                f"column {field.name!r} has the type {field.type}: JSON has no maps, send these rows as Arrow"
            )
    columns = [_column(field, [record.get(field.name) for record in records]) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(field: Any, values: list[Any]) -> pa.Array:
    try:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            values = [None if value is None else base64.b64decode(value, validate=True) for value in values]
        if _is_text_only(field.type) and any(isinstance(value, str) for value in values):
            return pa.array(values, pa.string()).cast(field.type)
        return pa.array(values, field.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise BadRequest(f"column {field.name!r} is of type {field.type}: {error}") from error
    except (binascii.Error, TypeError, ValueError) as error:
        raise BadRequest(f"column {field.name!r} is of type {field.type}, base64 is wanted: {error}") from error


def _has_map(kind: Any) -> bool:
    inside = range(kind.num_fields) if pa.types.is_nested(kind) else ()
    return bool(pa.types.is_map(kind) or any(_has_map(kind.field(n).type) for n in inside))


def _is_text_only(kind: Any) -> bool:
    """Types that JSON has only as text."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))
