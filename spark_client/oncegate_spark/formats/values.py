"""Encodes Arrow rows with a format: what the formats share."""

from typing import Protocol

import pyarrow as pa

from oncegate_spark.errors import BadOption


class Format(Protocol):
    """Says how a row becomes the value of a record. It can be pickled, and is not changed by what it encodes."""

    def check(self, fields: list[pa.Field]) -> None:
        """Raises BadOption where rows with these columns can never be encoded, before any row is."""

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row, column by name; BadOption says which column does not fit, and why."""


def encode(how: Format, rows: pa.Table | pa.RecordBatch | pa.StructArray) -> pa.Array:
    """Encodes rows as values, `binary`, one for each row; a null struct stays null, and writes a tombstone.

    Raises BadOption, with the row's number, where one does not fit the format; nothing is kept of the rows before it.
    """
    structs = _structs(rows) if isinstance(rows, pa.Table | pa.RecordBatch) else rows
    if not isinstance(structs, pa.StructArray):
        raise BadOption(f"a format encodes rows of several columns, and got one column of {structs.type}")
    how.check(list(structs.type))
    values: list[bytes | None] = []
    for number, row in enumerate(_rows(structs)):
        try:
            values.append(None if row is None else how.value(row))
        except BadOption as error:
            raise BadOption(f"row {number}: {error}") from error
    return pa.array(values, pa.binary())


def _rows(structs: pa.StructArray) -> list[dict[str, object] | None]:
    try:
        return list(structs.to_pylist())
    except (ValueError, OverflowError) as error:  # as a date after the year 9999, or two columns of one name
        raise BadOption(f"a row has no values in Python: {error}") from error


def _structs(rows: pa.Table | pa.RecordBatch) -> pa.StructArray:
    if isinstance(rows, pa.Table):
        rows = rows.combine_chunks()
    whole = rows.to_struct_array()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
