"""Encodes rows as JSON, alone or prefixed with the id of their JSON Schema in a schema registry."""

import base64
import json as plain_json
import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oncegate_spark.errors import BadOption
from oncegate_spark.formats.registry import EXTRA, RegisteredSchema, registered

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


@dataclass(frozen=True)
class Json:
    """Encodes a row as an object, members in column order, without spaces.

    Times are ISO 8601, bytes base64, decimals strings, so that no reader rounds them; null stays null. With a schema,
    each row is validated before it is encoded.
    """

    schema: RegisteredSchema | None = None

    @cached_property
    def _validator(self) -> Any:
        import jsonschema
        from referencing import Registry, Resource

        assert self.schema is not None
        parsed = plain_json.loads(self.schema.text)
        named = [(name, Resource.from_contents(plain_json.loads(text))) for name, text in self.schema.references]
        made = jsonschema.validators.validator_for(parsed, default=jsonschema.Draft7Validator)
        return made(parsed, registry=Registry().with_resources(named))

    def __getstate__(self) -> dict[str, Any]:
        return {"schema": self.schema}

    def check(self, fields: list[pa.Field]) -> None:
        """Raises BadOption for two columns with the same name, which a JSON object cannot have."""
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadOption(f"two columns are named {', '.join(twice)}")

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row. Raises BadOption for NaN and infinity, and for a row that the schema rejects."""
        content = {name: _plain(name, value) for name, value in row.items()}
        if self.schema is None:
            return _text(content)
        if (error := next(self._validator.iter_errors(content), None)) is not None:
            raise BadOption(f"the row does not fit the JSON Schema: {error.json_path}: {error.message}")
        return self.schema.prefix + _text(content)


def json(registry: "str | SchemaRegistryClient | None" = None, subject: str = "", schema: str | None = None) -> Json:
    """Returns the format for plain JSON, or for the JSON Schema of a subject, or registers `schema` under it.

    Raises BadOption if only one of registry and subject is given or the registry rejects the schema; Unreachable if it
    does not respond.
    """
    if registry is None and not subject and schema is None:
        return Json()
    if registry is None or not subject:
        raise BadOption("a JSON Schema needs both registry and subject")
    try:
        import jsonschema
    except ImportError as error:
        raise BadOption(f"a JSON Schema needs jsonschema: {EXTRA}") from error
    made = Json(registered(registry, subject, "JSON", schema))
    try:
        parsed = plain_json.loads(made.schema.text if made.schema else "")
        jsonschema.validators.validator_for(parsed, default=jsonschema.Draft7Validator).check_schema(parsed)
    except (ValueError, jsonschema.SchemaError) as error:
        raise BadOption(f"not a JSON Schema: {error}") from error
    return made


def _text(content: dict[str, object]) -> bytes:
    return plain_json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def _plain(name: str, value: Any) -> Any:
    """Converts an Arrow value to a JSON value."""
    if isinstance(value, float) and not math.isfinite(value):
        raise BadOption(f"column {name} contains {value}, which JSON cannot represent")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return {inner: _plain(f"{name}.{inner}", item) for inner, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    return value
