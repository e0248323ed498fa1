"""Encodes Arrow rows with a format; shared by all formats."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from oncegate_spark.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import Column


class Format(Protocol):
    """Encodes a row as a record's value. Must be picklable and immutable."""

    def check(self, fields: list[pa.Field]) -> None:
        """Raises BadOption, before any row is encoded, if rows with these columns can never be encoded."""

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row, column by name. Raises BadOption with the column and the reason if one does not fit."""


def encode(how: Format, rows: pa.Table | pa.RecordBatch | pa.StructArray) -> pa.Array:
    """Encodes rows as `binary` values, one per row; a null struct stays null, a tombstone.

    Raises BadOption with the row's number if one does not fit the format; the result for earlier rows is discarded.
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
    except (ValueError, OverflowError) as error:  # for instance a date after the year 9999, or two columns of one name
        raise BadOption(f"a row cannot be converted to Python values: {error}") from error


def _structs(rows: pa.Table | pa.RecordBatch) -> pa.StructArray:
    if isinstance(rows, pa.Table):
        rows = rows.combine_chunks()
    whole = rows.to_struct_array()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


@dataclass(frozen=True)
class ArrowRows:
    """Encodes a row as an Arrow stream of its schema and one row: some hundred bytes more than the row itself."""

    schema: pa.Schema

    def check(self, fields: list[pa.Field]) -> None:
        """Raises BadOption unless the columns are those of the schema."""
        if {field.name for field in fields} != set(self.schema.names):
            raise BadOption(f"the columns are not those of the Arrow schema: {', '.join(self.schema.names)}")

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row. Raises BadOption for a value of another type."""
        into = pa.BufferOutputStream()
        try:
            rows = pa.RecordBatch.from_pylist([row], schema=self.schema)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadOption(f"the row does not fit the Arrow schema: {error}") from error
        with pa.ipc.new_stream(into, self.schema) as stream:
            stream.write_batch(rows)
        return bytes(into.getvalue())


def arrow(schema: pa.Schema) -> ArrowRows:
    """Returns the format for Arrow streams of this schema. Raises BadOption for a schema without columns."""
    if not len(schema):
        raise BadOption("the Arrow schema has no columns")
    return ArrowRows(schema)


def column(how: Format, *names: "str | Column") -> "Column":
    """Returns a binary column of encoded rows, from these columns or from the fields of a single struct column.

    A null struct becomes null, a tombstone. A row that does not fit fails its task with BadOption and the reason.
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
