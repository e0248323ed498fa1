"""Encodes rows as Avro with fastavro, prefixed with the id of their schema in a schema registry.

Before that, compares Arrow columns with Avro fields, where fastavro would write a different or an unreadable value.
Unions of several types are left to fastavro, which selects the branch that a value fits.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oncegate_spark.errors import BadOption
from oncegate_spark.formats.registry import EXTRA, RegisteredSchema, registered

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


_INSTANTS = frozenset({"timestamp-millis", "timestamp-micros", "timestamp-nanos"})
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def misfit(kind: pa.DataType, avro: Any, named: Mapping[str, Any]) -> str | None:
    """Returns why values of an Arrow type can never be encoded as an Avro type; None if they may fit.

    `named`: the named types of the schema.
    """
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            return misfit(kind, branches[0], named)
        return next((why for branch in branches if (why := _meets_instant(kind, branch, named))), None)
    avro = _resolved(avro, named)
    if why := _meets_instant(kind, avro, named):
        return why
    name, is_plain = _name(avro), not (isinstance(avro, dict) and "logicalType" in avro)
    if name in ("int", "long") and is_plain and (_is_fraction(kind) or pa.types.is_boolean(kind)):
        return f"{kind} is not {name}: cast the column"
    if name == "boolean" and not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        return f"{kind} is not boolean: cast the column"
    return next((why for inner in _inner(kind, avro) if (why := misfit(*inner, named))), None)


def has_ints(avro: Any, named: Mapping[str, Any]) -> bool:
    """True if values of an Avro type may contain an `int` outside a union, which needs `check_ints`."""
    return not isinstance(avro, list) and _name(_resolved(avro, named)) in ("int", "record", "array")


def check_ints(value: Any, avro: Any, named: Mapping[str, Any]) -> None:
    """Raises ValueError for a number above 32 bits in an `int` field, which no reader accepts."""
    if value is None or isinstance(avro, list):
        return
    avro = _resolved(avro, named)
    name = _name(avro)
    if name == "int":
        if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
            raise ValueError(f"{value} does not fit the 32 bits of an int")
    elif name == "array":
        for item in value:
            check_ints(item, avro["items"], named)
    elif name == "record":
        for field in avro["fields"]:
            check_ints(value.get(field["name"]), field["type"], named)


def _meets_instant(kind: pa.DataType, avro: Any, named: Mapping[str, Any]) -> str | None:
    avro = _resolved(avro, named)
    if not (pa.types.is_timestamp(kind) and kind.tz is None and isinstance(avro, dict)):
        return None
    if avro.get("logicalType") not in _INSTANTS:
        return None
    return f"{kind} has no time zone, and {avro['logicalType']} is an instant: cast the column, or use local-timestamp"


def _inner(kind: pa.DataType, avro: Any) -> list[tuple[pa.DataType, Any]]:
    name = _name(avro)
    if name == "record" and pa.types.is_struct(kind):
        types = {field["name"]: field["type"] for field in avro["fields"]}
        return [(field.type, types[field.name]) for field in kind if field.name in types]
    if name == "array" and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return [(kind.value_type, avro["items"])]
    return []


def _is_fraction(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _resolved(avro: Any, named: Mapping[str, Any]) -> Any:
    return named.get(avro, avro) if isinstance(avro, str) else avro


def _name(avro: Any) -> Any:
    return avro["type"] if isinstance(avro, dict) else avro


@dataclass(frozen=True)
class Avro:
    """Encodes a row as a record of a registered schema: columns by name, nulls only where a field allows them.

    Rejects numbers that would be truncated, and times without a time zone for a field that is an instant, since the
    result would depend on the machine.
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
        """Raises BadOption for columns without a field or with a different kind of value, and for a missing
        column without a default.
        """
        schema_fields = {field["name"]: field for field in self._parsed["fields"]}
        columns = {field.name for field in fields}
        if more := sorted(columns - schema_fields.keys()):
            raise BadOption(f"the Avro schema has no field {', '.join(more)}")
        missing = [name for name, field in schema_fields.items() if "default" not in field and name not in columns]
        if missing:
            raise BadOption(f"columns {', '.join(missing)} are missing, and the Avro schema has no default for them")
        for schema_field in fields:
            if why := misfit(
                schema_field.type, schema_fields[schema_field.name]["type"], self._parsed["__named_schemas"]
            ):
                raise BadOption(f"column {schema_field.name} does not fit the Avro schema: {why}")

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row. Raises BadOption for a value that does not fit its field."""
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
    """Returns the format for the newest Avro schema of a subject, or registers `schema` under it.

    `registry`: its address, or a client of confluent-kafka. Raises BadOption if the registry rejects the schema or it
    is not a record; Unreachable if the registry does not respond.
    """
    if schema is not None:
        _parse(RegisteredSchema(0, schema))
    made = registered(registry, subject, "AVRO", schema)
    _parse(made)
    return Avro(made)


def _parse(schema: RegisteredSchema) -> Any:
    """Parses a schema for fastavro. Raises BadOption unless it is a record's."""
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
        raise BadOption("the Avro schema is not a record, and a row needs one")
    return parsed
