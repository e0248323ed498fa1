"""Reads ids from Avro values with fastavro. Only the fields that are ids are decoded."""

import io
import json
import struct
from collections.abc import Sequence
from typing import Any

try:
    import fastavro
except ImportError as error:
    from oncegate.core.errors import BadRequest

    raise BadRequest(f"Avro needs fastavro ({error}): pip install 'oncegate[formats]'") from error

from oncegate.core.errors import BadRequest
from oncegate.verifier.sources.kafka_ids import HEAD_BYTES, ID_TYPES, ReadIds
from oncegate.verifier.sources.registry import RegisteredText

_IDS = {"null", "string", "bytes", "int", "long", "fixed", "enum"}
# Errors that fastavro raises for bytes that are not a value of the schema.
_UNREADABLE = (EOFError, ValueError, TypeError, IndexError, KeyError, OverflowError, StopIteration, RecursionError)


def reader_of(schema: RegisteredText, number: int, names: Sequence[str]) -> ReadIds:
    """Returns a reader for the fields with the given names. Raises BadRequest if the schema is no record, or a field is
    missing or cannot be an id.
    """
    written, named = _parsed(schema, number)
    fields = {name: _field(written, named, name, number) for name in names}
    wanted = {**written, "fields": list(fields.values())}
    written = {**written, "fields": [fields.get(field["name"], field) for field in written["fields"]]}

    def read(value: bytes) -> Sequence[object] | None:
        try:
            row: Any = fastavro.schemaless_reader(io.BytesIO(value[HEAD_BYTES:]), written, wanted)
        except (*_UNREADABLE, struct.error):
            return None
        return [row[name] for name in names]

    return read


def _parsed(schema: RegisteredText, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the record's schema as parsed by fastavro, and all named types in it."""
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(schema.text), named_schemas=named)
    except (ValueError, TypeError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise BadRequest(f"schema {number} cannot be read: {error}") from error
    if not isinstance(parsed, dict) or parsed["type"] != "record":
        raise BadRequest(f"schema {number} is not a record, so it has no fields")
    return parsed, named


def _branches(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _field(record: dict[str, Any], named: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    """Returns a field of the record with its type resolved. A UUID in text form is read as its text."""
    fields = {field["name"]: field for field in record["fields"]}
    if name not in fields:
        raise BadRequest(f"schema {number} has no field {name}: it has {', '.join(fields)[:200]}")
    kind = fields[name]["type"]
    kinds = [named.get(branch, branch) if isinstance(branch, str) else branch for branch in _branches(kind)]
    for branch in kinds:
        plain, logical = (branch["type"], branch.get("logicalType")) if isinstance(branch, dict) else (branch, None)
        if plain not in _IDS or (logical and (plain, logical) != ("string", "uuid")):
            raise BadRequest(f"field {name} of schema {number} is {logical or plain}; ids are {ID_TYPES}")
    kinds = ["string" if isinstance(branch, dict) and branch["type"] == "string" else branch for branch in kinds]
    return {"name": name, "type": kinds if isinstance(kind, list) else kinds[0]}
