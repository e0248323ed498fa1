"""Looks up or registers schemas in a schema registry with confluent-kafka's client, and returns the prefix of values.

The prefix is Confluent's wire format: a zero byte and the schema's number in 4 bytes, big-endian
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
# Lower status codes reject the request; this and higher ones are failures of the registry.
_SERVER_ERROR = 500


@dataclass(frozen=True)
class RegisteredSchema:
    """A registered schema: its id, text, and referenced schemas by name."""

    number: int
    text: str
    references: tuple[tuple[str, str], ...] = ()

    @property
    def prefix(self) -> bytes:
        """Prefix of each value: a zero byte and the schema id, 5 bytes."""
        return b"\0" + self.number.to_bytes(4, "big")


def registry_client(registry: "str | SchemaRegistryClient") -> "SchemaRegistryClient":
    """Returns a client for a registry's address, or the given client, which may have its own TLS settings and
    credentials.
    """
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise BadOption(f"a schema registry needs confluent-kafka's client: {EXTRA} ({error})") from error
    return SchemaRegistryClient({"url": registry}) if isinstance(registry, str) else registry


def registered(registry: "str | SchemaRegistryClient", subject: str, kind: str, schema: str | None) -> RegisteredSchema:
    """Returns the subject's newest schema, or registers `schema` under it; registering is idempotent.

    `kind`: required type of the schema, AVRO or JSON. Raises BadOption if the registry rejects the schema, for instance
    as incompatible, or the subject has another type; Unreachable if it does not respond.
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
        raise BadOption(f"subject {subject} of the schema registry has no schema")
    if (schema.schema_type or "AVRO") != kind:
        raise BadOption(f"subject {subject} of the schema registry is {schema.schema_type}, not {kind}")
    named = []
    for reference in schema.references or []:
        referred = client.get_version(str(reference.subject), int(reference.version or 0)).schema
        if referred.references:
            raise BadOption(f"subject {reference.subject} has references itself: pass the whole schema as one text")
        named.append((str(reference.name), str(referred.schema_str)))
    return RegisteredSchema(newest.schema_id, schema.schema_str, tuple(named))


@contextmanager
def answering(subject: str) -> Iterator[None]:
    """Translates errors of the registry's client to BadOption or Unreachable, with the registry's message."""
    from confluent_kafka.schema_registry import SchemaRegistryError

    try:
        yield
    except OncegateError:
        raise
    except SchemaRegistryError as error:
        words = f"the schema registry answered {error.http_status_code} for subject {subject}: {error.error_message}"
        raise (Unreachable if error.http_status_code >= _SERVER_ERROR else BadOption)(words) from error
    except Exception as error:
        # The client's HTTP library depends on its version, and so do its exceptions.
        raise Unreachable(f"the schema registry does not answer: {error}") from error
