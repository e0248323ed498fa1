"""Encodes Arrow rows with a format: what the formats share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from oncegate_spark.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import Column


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


@dataclass(frozen=True)
class ArrowRows:
    """Encodes a row as a stream with its schema and one row: some hundred bytes more than the row itself."""

    schema: pa.Schema

    def check(self, fields: list[pa.Field]) -> None:
        """Refuses columns other than those of the schema."""
        if {field.name for field in fields} != set(self.schema.names):
            raise BadOption(f"the columns are not those of the Arrow schema: {', '.join(self.schema.names)}")

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row; BadOption where a column's value is of another type."""
        into = pa.BufferOutputStream()
        try:
            rows = pa.RecordBatch.from_pylist([row], schema=self.schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadOption(f"the row does not fit the Arrow schema: {error}") from error
        with pa.ipc.new_stream(into, self.schema) as stream:
            stream.write_batch(rows)
        return bytes(into.getvalue())


def arrow(schema: pa.Schema) -> ArrowRows:
    """Makes a format of Arrow streams with this schema. Raises BadOption where it has no column."""
    if not len(schema):
        raise BadOption("an Arrow schema without columns encodes no row")
    return ArrowRows(schema)


def column(how: Format, *names: "str | Column") -> "Column":
    """Returns a column of bytes: these columns of each row, encoded; a single struct column encodes its fields.

    A null struct gives null, a tombstone. A row that does not fit ends its task with BadOption, which says why.
    """
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    is_struct = len(names) == 1 and isinstance(names[0], Column)
    content = names[0] if is_struct else F.struct(*names)

    def encoded(rows: pa.Array) -> pa.Array:
        return encode(how, rows)

    udf: Any = F.arrow_udf(encoded, "binary")
    made: Column = udf(content)
    return made
