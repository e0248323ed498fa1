"""Encodes rows as Avro, by fastavro, with the number of their schema in a schema registry before them."""

import io
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oncegate_spark.errors import BadOption
from oncegate_spark.formats.avro_types import check_ints, has_ints, misfit
from oncegate_spark.formats.registry import EXTRA, RegisteredSchema, registered

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


@dataclass(frozen=True)
class Avro:
    """Encodes a row as a record of a registered schema: columns by name, nulls only where a field allows them.

    A number that its field cannot hold whole is refused, and so is a time without a time zone where the field is an
    instant: which one it is depends on the machine.
    """

    schema: RegisteredSchema

    @cached_property
    def _parsed(self) -> Any:
        return _parse(self.schema)

    @cached_property
    def _ints(self) -> list[tuple[str, Any]]:
        named = self._parsed["__named_schemas"]
        return [(field["name"], field["type"]) for field in self._parsed["fields"] if has_ints(field["type"], named)]

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema}

    def check(self, fields: list[pa.Field]) -> None:
        """Refuses columns that the schema has no field for, or one of another kind of value,
        and a missing column whose field has no default."""
        schema_fields = {field["name"]: field for field in self._parsed["fields"]}
        columns = {field.name for field in fields}
        if more := sorted(columns - schema_fields.keys()):
            raise BadOption(f"the Avro schema has no field {', '.join(more)}")
        missing = [name for name, field in schema_fields.items() if "default" not in field and name not in columns]
        if missing:
            raise BadOption(f"no column {', '.join(missing)}, which the Avro schema has without a default")
        for schema_field in fields:
            if why := misfit(
                schema_field.type, schema_fields[schema_field.name]["type"], self._parsed["__named_schemas"]
            ):
                raise BadOption(f"column {schema_field.name} does not fit the Avro schema: {why}")

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row; BadOption where a column's value does not fit its field."""
        import fastavro

        into = io.BytesIO()
        try:
            for name, kind in self._ints:
                check_ints(row.get(name), kind, self._parsed["__named_schemas"])
            fastavro.schemaless_writer(into, self._parsed, row, strict_allow_default=True)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
            raise BadOption(f"the row does not fit the Avro schema: {error}") from error
        return self.schema.prefix + into.getvalue()


def avro(registry: "str | SchemaRegistryClient", subject: str, schema: str | None = None) -> Avro:
    """Makes a format from the newest Avro schema of a registry's subject, or registers `schema` under it.

    registry: its address, or a client of confluent-kafka. Raises BadOption where the registry refuses, or the schema is
    no record; Unreachable where the registry does not answer.
    """
    if schema is not None:
        _parse(RegisteredSchema(0, schema))
    made = registered(registry, subject, "AVRO", schema)
    _parse(made)
    return Avro(made)


def _parse(schema: RegisteredSchema) -> Any:
    """Returns what fastavro writes by; BadOption where the text is no schema of a record."""
    try:
        import fastavro
    except ImportError as error:
        raise BadOption(f"Avro needs fastavro: {EXTRA}") from error
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (ValueError, TypeError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise BadOption(f"not an Avro schema: {error}") from error
    if not isinstance(parsed, dict) or parsed["type"] != "record":
        raise BadOption("a row is an Avro record, and the schema is another type")
    return parsed
