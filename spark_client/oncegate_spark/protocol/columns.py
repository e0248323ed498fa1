"""Selects the columns for ids, payloads and keys by name. No I/O."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.protocol.ids import check_ids, checked_columns
from oncegate_spark.protocol.payloads import payload_columns
from oncegate_spark.protocol.python_values import type_name

Columns = str | Sequence[str]  # column names; a str separates them by commas, as Spark's options do


def column_names(columns: Columns) -> tuple[str, ...]:
    """Returns names as a tuple, in their order, which is part of an id.

    Raises BadOption for a repeated name, and for a name that is empty or contains a comma: the gateway separates names
    by commas.
    """
    names = columns.split(",") if isinstance(columns, str) else columns
    stripped = tuple(name.strip() if isinstance(columns, str) else name for name in names)
    if any("," in name or not name for name in stripped) and columns:
        raise BadOption(f"{columns!r}: a column name must not be empty or contain a comma; nothing was written")
    if len(set(stripped)) < len(stripped):
        raise BadOption(f"{columns!r}: a column is named twice; nothing was written")
    return stripped if columns else ()


def table_of(rows: Any) -> pa.Table:
    """Returns rows as a table. Raises BadOption for types without exact column types; nothing was sent."""
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return rows
    line = "pa.Table.from_pylist(rows)" if isinstance(rows, list) else "pa.table(rows)"
    if hasattr(rows, "columns"):
        line = "pa.Table.from_pandas(rows, preserve_index=False)"
    raise BadOption(
        f"rows is of type {type_name(rows)}; it must be a pyarrow.Table, whose columns are typed: write {line}, with "
        "schema= if the topic has one; nothing was sent"
    )


def columns_of(rows: pa.Table | pa.RecordBatch, names: Columns) -> list[pa.Array]:
    """Returns the id columns. Raises BadId if one is missing or its type cannot be an id; nothing was sent."""
    try:
        return checked_columns({name: rows.column(name) for name in names})
    except KeyError as error:
        raise BadId(f"the rows have no column {error}; nothing was written") from error


def check_columns(rows: pa.Table | pa.RecordBatch, names: Columns) -> None:
    """Raises BadId like `columns_of`, for ids that the gateway computes from the rows; nothing was sent."""
    try:
        check_ids({name: rows.column(name) for name in names})
    except KeyError as error:
        raise BadId(f"the rows have no column {error}; nothing was written") from error


def payloads_of(rows: pa.Table | pa.RecordBatch, names: Columns) -> list[pa.Array]:
    """Returns the payload columns. Raises BadOption if one is missing or of an unsupported type; nothing was sent."""
    missing = [name for name in names if name not in rows.schema.names]
    if missing:
        have = ", ".join(rows.schema.names)
        raise BadOption(f"digest_cols names {missing[0]}, and the rows have {have}; nothing was sent")
    return payload_columns({name: rows.column(name) for name in names})
