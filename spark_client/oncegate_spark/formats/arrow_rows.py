"""Encodes each row as an Arrow IPC stream of its own, for readers that want types without a schema registry."""

from dataclasses import dataclass

import pyarrow as pa

from oncegate_spark.errors import BadOption


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
