"""Columns that a call names: of ids, of payloads, of keys. No I/O."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import BadId, BadOption
from oncegate_spark.protocol.ids import check_ids, checked_columns
from oncegate_spark.protocol.payloads import payload_columns
from oncegate_spark.protocol.python_values import type_name

Columns = str | Sequence[str]  # names of columns; in a str they are separated by commas, as in Spark's options


def column_names(columns: Columns) -> tuple[str, ...]:
    """Returns names as a tuple, in their order, which is part of an id.

    Raises BadOption for a name that cannot be sent, since the gateway separates names by commas, and for one that is
    there twice.
    """
    names = columns.split(",") if isinstance(columns, str) else columns
    stripped = tuple(name.strip() if isinstance(columns, str) else name for name in names)
    if any("," in name or not name for name in stripped) and columns:
        raise BadOption(f"{columns!r}: a column's name is not empty and has no comma in it; nothing was written")
    if len(set(stripped)) < len(stripped):
        raise BadOption(f"{columns!r}: a column is named twice; nothing was written")
    return stripped if columns else ()


def table_of(rows: Any) -> pa.Table:
    """Returns rows as a table. Raises BadOption for what has no exact types of columns; nothing was sent."""
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return rows
    line = "pa.Table.from_pylist(rows)" if isinstance(rows, list) else "pa.table(rows)"
    if hasattr(rows, "columns"):
        line = "pa.Table.from_pandas(rows, preserve_index=False)"
    raise BadOption(
        f"rows is of type {type_name(rows)}; it is a pyarrow.Table, whose columns have types: write {line}, with "
        "schema= where the topic has one; nothing was sent"
    )


def columns_of(rows: pa.Table | pa.RecordBatch, names: Columns) -> list[pa.Array]:
    """The id columns of rows. Raises BadId when one is missing or cannot be an id; nothing was sent."""
    try:
        return checked_columns({name: rows.column(name) for name in names})
    except KeyError as error:
        raise BadId(f"the rows have no column {error}; nothing was written") from error


def check_columns(rows: pa.Table | pa.RecordBatch, names: Columns) -> None:
    """Raises BadId as `columns_of` does, which the gateway makes ids of itself; nothing was sent."""
    try:
        check_ids({name: rows.column(name) for name in names})
    except KeyError as error:
        raise BadId(f"the rows have no column {error}; nothing was written") from error


def payloads_of(rows: pa.Table | pa.RecordBatch, names: Columns) -> list[pa.Array]:
    """The columns that ids come with. Raises BadOption when one is missing or of another type; nothing was sent."""
    missing = [name for name in names if name not in rows.schema.names]
    if missing:
        have = ", ".join(rows.schema.names)
        raise BadOption(f"digest_cols names {missing[0]}, and the rows have {have}; nothing was sent")
    return payload_columns({name: rows.column(name) for name in names})
