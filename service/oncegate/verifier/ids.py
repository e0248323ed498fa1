"""Hashes ids to 16 bytes, independent of their source: a number equals its decimal text, and text equals its bytes.

The hashes use a key drawn for this run. The ledger's fingerprints use the namespace's key, which never leaves the
gateway. Among q ids two collide by accident with a probability of q^2 / 2^129.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncegate.arraytypes import U64
from oncegate.core.errors import BadRequest, NullId, OncegateError
from oncegate.engine.limits import Limits
from oncegate.hashing.ids import Fingerprinter
from oncegate.transports.decode import columns, ids

# Rows hashed and looked up at once; a request accepts 100,000 by default.
BATCH_ROWS = 50_000
_LIMITS = Limits(ids_per_request=BATCH_ROWS)


def as_ids(table: pa.Table, names: list[str]) -> pa.Table:
    """Returns the columns of an id as text or bytes, as every transport of the gateway accepts them.

    Raises BadRequest if a column is missing, or of a type that ids cannot have.
    """
    columns.check_present(names, table.column_names, "--id-col")
    columns_of_ids = [_plain(table[name], name) for name in names]
    return pa.table(columns_of_ids, names)


def _plain(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        column = column.cast(pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary())
    values = columns.id_column(pa.table({name: column}), name)
    if not columns.is_id(values.type):
        raise BadRequest(f"id column {name!r} has type {column.type}; ids are {columns.ID_TYPES}")
    return values


def fingerprints(table: pa.Table, printer: Fingerprinter, first_row: int) -> U64:
    """Returns the hashes of an id table's rows, shape (n, 2). Raises BadRequest, with the row, if an id is null, empty
    or too long.
    """
    # Joined columns are distinguished by their types as well, and here text and bytes are equal.
    parts = [column.combine_chunks().cast(pa.large_binary()) for column in table.columns]
    try:
        return ids.of_columns(parts, table.column_names, printer, _LIMITS)
    except NullId as error:
        rows_refused: Any = error.extra["places"]
        row = first_row + int(rows_refused[0])
        raise BadRequest(f"row {row} has a null or empty id, which cannot be written by id: remove it") from error
    except OncegateError as error:
        raise BadRequest(f"rows from {first_row} on: {error.detail}") from error


def present(table: pa.Table) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Returns for each row of an id table whether it has an id: no column is null, and not all are empty; bool (n,)."""
    whole, some = np.ones(len(table), np.bool_), np.zeros(len(table), np.bool_)
    for column in table.columns:
        sizes = pc.fill_null(pc.binary_length(column), -1).to_numpy()
        whole &= sizes >= 0
        some |= sizes > 0
    return whole & some


def text_of(row: dict[str, Any]) -> str | list[str]:
    """Formats one row of an id table: its text, or one text per column; bytes that are not text as hex."""
    shown = [_text(value) for value in row.values()]
    return shown[0] if len(shown) == 1 else shown


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return bytes(value).hex()
