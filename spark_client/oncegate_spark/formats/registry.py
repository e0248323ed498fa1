"""Finds or registers a schema in a schema registry, by confluent-kafka's client, and frames values with its number.

The frame is Confluent's wire format: a zero byte, the schema's number in 4 bytes, big-endian, then the encoded row
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncegate_spark.errors import BadOption, OncegateError, Unreachable

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

EXTRA = "pip install 'oncegate-spark[formats]'"
# Answers of a registry below it say that the request is wrong; from it on that the registry is.
_SERVER_ERROR = 500


@dataclass(frozen=True)
class RegisteredSchema:
    """Names a schema as the registry knows it: its number, its text, and those that it refers to, by name."""

    number: int
    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def prefix(self) -> bytes:
        """What stands before each value: a zero byte and the number, 5 bytes."""
        return b"\0" + self.number.to_bytes(4, "big")


def registry_client(registry: "str | SchemaRegistryClient") -> "SchemaRegistryClient":
    """Returns a client for a registry's address, or the client that is given, with its own TLS and credentials."""
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise BadOption(f"a schema registry needs confluent-kafka's client: {EXTRA} ({error})") from error
    return SchemaRegistryClient({"url": registry}) if isinstance(registry, str) else registry


def registered(registry: "str | SchemaRegistryClient", subject: str, kind: str, schema: str | None) -> RegisteredSchema:
    """Returns the subject's newest schema, or registers `schema` under it, which the registry may know already.

    kind: AVRO or JSON, what the newest schema has to be. Raises BadOption where the registry refuses, as a schema that
    is not compatible with those before it, or where the subject has another kind; Unreachable where it does not answer.
    """
    from confluent_kafka.schema_registry import Schema

    client = registry_client(registry)
    with answering(subject):
        if schema is not None:
            return RegisteredSchema(client.register_schema(subject, Schema(schema, kind)), schema)
        return _newest(client, subject, kind)


def _newest(client: "SchemaRegistryClient", subject: str, kind: str) -> RegisteredSchema:
    newest = client.get_latest_version(subject)
    schema = newest.schema
    if newest.schema_id is None or schema.schema_str is None:
        raise BadOption(f"the schema registry has subject {subject} without a schema")
    if (schema.schema_type or "AVRO") != kind:
        raise BadOption(f"subject {subject} of the schema registry is {schema.schema_type}, not {kind}")
    named = []
    for reference in schema.references or []:
        referred = client.get_version(str(reference.subject), int(reference.version or 0)).schema
        if referred.references:
            raise BadOption(f"subject {reference.subject} refers to others in turn: give the whole schema as one text")
        named.append((str(reference.name), str(referred.schema_str)))
    return RegisteredSchema(newest.schema_id, schema.schema_str, tuple(named))


@contextmanager
def answering(subject: str) -> Iterator[None]:
    """Raises what the registry's client raises as BadOption or Unreachable, with the registry's words."""
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        yield
    except OncegateError:
        raise
    except SchemaRegistryError as error:
        words = f"the schema registry answers {error.http_status_code} for subject {subject}: {error.error_message}"
        raise (Unreachable if error.http_status_code >= _SERVER_ERROR else BadOption)(words) from error
    except Exception as error:
        # Which library the client speaks HTTP with differs by version, and so do its errors.
        raise Unreachable(f"the schema registry does not answer: {error}") from error
