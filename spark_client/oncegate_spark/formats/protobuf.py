"""Encodes rows as Protobuf messages, with the number of their schema in a schema registry before them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from oncegate_spark.errors import BadOption
from oncegate_spark.formats.registry import EXTRA, answering, registry_client

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


@dataclass(frozen=True)
class Protobuf:
    """Encodes a row as a message: columns by the names of its fields, a null column as a field that is not set.

    message: the class that protoc generated; Spark's workers import it as the driver does. prefix: what the registry's
    wire format has before each message: a zero byte, the schema's number, and which message of its file it is.
    """

    message: Any
    prefix: bytes

    def check(self, fields: list[pa.Field]) -> None:
        """Refuses columns that the message has no field for."""
        names = {field.name for field in self.message.DESCRIPTOR.fields}
        if more := sorted({field.name for field in fields} - names):
            raise BadOption(f"message {self.message.DESCRIPTOR.full_name} has no field {', '.join(more)}")

    def value(self, row: dict[str, object]) -> bytes:
        """Encodes one row, fields in the order of their numbers; BadOption where a value does not fit its field."""
        try:
            made = self.message(**_set(row))
        except (ValueError, TypeError, OverflowError) as error:
            raise BadOption(f"the row does not fit {self.message.DESCRIPTOR.full_name}: {error}") from error
        return self.prefix + bytes(made.SerializeToString(deterministic=True))


def protobuf(registry: "str | SchemaRegistryClient", subject: str, message: Any) -> Protobuf:
    """Makes a format of a generated message class, and registers its file under `subject`, with those that it imports.

    Raises BadOption where the registry refuses, as a file that is not compatible with those before it; Unreachable
    where it does not answer.
    """
    client = registry_client(registry)
    try:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
        from confluent_kafka.serialization import MessageField, SerializationContext
    except ImportError as error:
        raise BadOption(f"Protobuf needs confluent-kafka's serializer: {EXTRA} ({error})") from error
    settings = {"use.deprecated.format": False, "subject.name.strategy": lambda *_: subject}
    with answering(subject):
        empty = ProtobufSerializer(message, client, settings)(message(), SerializationContext("", MessageField.VALUE))
    # A message that has nothing set has no bytes: what the serializer returned is the prefix alone.
    return Protobuf(message, bytes(empty or b""))


def _set(row: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what is null, at any depth: in Protobuf a field is set or it is not."""
    return {name: _inner(value) for name, value in row.items() if value is not None}


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return _set(value)
    return [_inner(item) for item in value] if isinstance(value, list) else value
