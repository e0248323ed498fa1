"""Converts JSON records to Arrow rows, by the topic's schema or, before the first write, by an inferred one.

A column missing from a record is null. `json_values` lists the forms of values. Records that would take minutes (too
many cells, deep nesting) are refused before the conversion.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from oncegate.core.errors import BadRequest, SchemaMismatch, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows, Schema
from oncegate.engine.usecases.partitioning import stream
from oncegate.transports.decode.arrow_ipc import leaves, read_rows
from oncegate.transports.decode.json_scan import DEPTH_MAX
from oncegate.transports.decode.json_values import Misfit, array_of, first_misfit, shown, type_of

JsonRecord = dict[str, Any]
# Some 5 ms for nested values.
CELLS_AT_ONCE = 50_000


def rows_of(records: Sequence[JsonRecord], schema: Schema | None, limits: Limits) -> Rows:
    """Converts records to rows with all columns of a topic, and checks them like an Arrow body.

    `schema`: the topic's; None: nothing was written to the topic yet, and the schema is inferred from the records.

    Raises BadRequest; SchemaMismatch with the row, the value and the path to it; TooLarge.
    """
    check_shape(records, 0 if schema is None else len(schema), limits)
    names = list(dict.fromkeys(chain.from_iterable(records)))
    if schema is not None:
        _refuse_strange(records, schema.names)
    return _rows(records, _guessed(records, names) if schema is None else list(schema), limits)


def records_of(records: Sequence[JsonRecord], types: Schema, limits: Limits) -> Rows:
    """Converts records for an external topic; the result has every column that occurs in at least one record.

    `types`: the columns of that topic's records. The types of other columns, e.g. of an id that is not written, are
    inferred; a column of nulls only is text.

    Raises as `rows_of`.
    """
    check_shape(records, 0, limits)
    names = list(dict.fromkeys(chain.from_iterable(records)))
    others = {field.name: field for field in _guessed(records, [n for n in names if n not in types.names], pa.string())}
    return _rows(records, [types.field(name) if name in types.names else others[name] for name in names], limits)


def _rows(records: Sequence[JsonRecord], fields: Sequence[Any], limits: Limits) -> Rows:
    table = pa.Table.from_arrays([_column(records, field) for field in fields], schema=pa.schema(fields))
    return read_rows(stream(table.schema, table.combine_chunks().to_batches()), limits)


def warm_up() -> None:
    """Warms up: converts one record, so that no request waits for libraries to load."""
    rows_of([{"a": 1, "b": ["x"]}], None, Limits())


def check_shape(records: Sequence[JsonRecord], known: int, limits: Limits) -> None:
    """Refuses records with too many columns or cells, or nested too deep, before the conversion.

    `known`: the number of columns that the topic already has. A cell is one position of a column, null or not. Nested
    values count as the columns that Arrow makes of them. Raises BadRequest, TooLarge.
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
    """Returns the lists and objects nested in objects, by member name; if the values are lists, returns them under "".

    Stops early at more than `columns_max` names.
    """
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
    """Returns the nested objects, and the objects and lists within nested lists, each group with its column length."""
    objects = [value for value in nested if isinstance(value, dict)]
    items = [item for value in nested if isinstance(value, list) for item in value]
    found: list[tuple[int, list[Any]]] = [(length, objects)]
    found += [(len(items), [item for item in items if isinstance(item, kind)]) for kind in (dict, list)]
    return [(size, part) for size, part in found if part]


def _refuse_strange(records: Sequence[JsonRecord], names: Sequence[str]) -> None:
    """Raises SchemaMismatch for the first row with a column not among `names`."""
    if not (strange := set().union(*records) - set(names)):
        return
    row = next(number for number, record in enumerate(records) if not strange.isdisjoint(record))
    found = ", ".join(sorted(strange.intersection(records[row])))
    raise SchemaMismatch(f"row {row}: the topic has no column {found}; it has {', '.join(names)}; nothing was written")


def _guessed(records: Sequence[JsonRecord], names: Sequence[str], nulls: Any = None) -> list[Any]:
    """Infers the fields of columns unknown to the topic. `nulls`: the type of a column of nulls only; None: refuse."""
    fields = []
    for name in names:
        values = [record.get(name) for record in records]
        if nulls is not None and not any(value is not None for value in values):
            fields.append(pa.field(name, nulls))
            continue
        try:
            fields.append(pa.field(name, type_of(values, name)))
        except Misfit as misfit:
            raise BadRequest(
                f"the records' types cannot be told: {misfit.why}; make the topic with a schema first; nothing was "
                "written"
            ) from misfit
    return fields


def _column(records: Sequence[JsonRecord], field: Any) -> Any:
    """Converts a column in pieces, because each conversion holds the GIL. Raises SchemaMismatch."""
    rows = max(1, CELLS_AT_ONCE // sum(1 for _ in leaves(field.type)))
    chunks = []
    for start in range(0, max(len(records), 1), rows):
        values = [record.get(field.name) for record in records[start : start + rows]]
        try:
            chunks.append(array_of(values, field.type))
        except Misfit as misfit:
            place = first_misfit(values, field.type)
            raise SchemaMismatch(
                f"row {start + place.number}: column '{field.name}{place.path}' cannot be {shown(place.value)}, for "
                f"its type is {place.kind}: {place.why}; nothing was written"
            ) from misfit
    return pa.chunked_array(chunks, field.type)
