"""Reads ids from Protobuf values. Message classes are made from the registry's descriptors; no code is generated."""

import io
from base64 import b64decode
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

try:
    # Registers Protobuf's own files and Google's common ones, which schemas import without a reference.
    import confluent_kafka.schema_registry.protobuf  # noqa: F401
    from confluent_kafka.schema_registry.serde import SchemaId
    from confluent_kafka.serialization import SerializationError
    from google.protobuf import descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.message import DecodeError
except ImportError as error:
    from oncegate.core.errors import BadRequest

    raise BadRequest(
        f"Protobuf needs confluent-kafka's serializer ({error}): pip install 'oncegate[formats]'"
    ) from error

from oncegate.core.errors import BadRequest
from oncegate.verifier.sources.kafka_ids import ID_TYPES, ReadIds
from oncegate.verifier.sources.registry import RegisteredText

# Converts an encoded message to its ids.
_Ids = Callable[[bytes], list[object]]


def reader_of(schema: RegisteredText, number: int, names: Sequence[str]) -> ReadIds:
    """Returns a reader for the fields with the given names, in whichever message of the schema file a value contains.

    Raises BadRequest if the schema is invalid. The reader raises it for a message in which a field is missing or cannot
    be an id. A field that is not set is null, if it tracks presence.
    """
    file, pool = _file(schema, number)

    @cache  # at most as many entries as the file has messages
    def of_message(name: str) -> _Ids:
        return _ids_of(pool.FindMessageTypeByName(name), number, names)

    def read(value: bytes) -> Sequence[object] | None:
        rest, head = io.BytesIO(value), SchemaId("PROTOBUF")
        try:
            head.from_bytes(rest)
            name = _name_of(file, head.message_indexes or [])
            return None if name is None else of_message(name)(rest.read())
        except (EOFError, SerializationError, DecodeError):
            return None

    return read


def _file(schema: RegisteredText, number: int) -> tuple[FileDescriptorProto, Any]:
    """Returns the schema's file descriptor, and a pool that contains the file and all its imports."""
    pool, references = descriptor_pool.DescriptorPool(), dict(schema.references)
    try:
        for name, text in references.items():
            _add(pool, _proto(name, text), references)
        file = _proto(f"schema-{number}.proto", schema.text)
        _add(pool, file, references)
    except (TypeError, ValueError, KeyError, DecodeError) as error:
        raise BadRequest(f"schema {number} is not a descriptor as requested by ?format=serialized: {error}") from error
    return file, pool


def _proto(name: str, text: str) -> FileDescriptorProto:
    descriptor = FileDescriptorProto.FromString(b64decode(text, validate=True))
    descriptor.name = name
    return descriptor


def _add(pool: Any, file: FileDescriptorProto, references: dict[str, str]) -> None:
    """Adds a file after the common ones that it imports; the schema's references must already be in the pool."""
    for name in file.dependency:
        if name not in references:
            common = FileDescriptorProto()
            descriptor_pool.Default().FindFileByName(name).CopyToProto(common)
            _add(pool, common, references)
    pool.Add(file)


def _name_of(file: FileDescriptorProto, indexes: Sequence[int]) -> str | None:
    """Returns the message at an index path (a top-level index, then nested ones) of a file; None if there is none."""
    messages: Sequence[DescriptorProto] = file.message_type
    names = [file.package] if file.package else []
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names) if indexes else None


def _ids_of(message: Any, number: int, names: Sequence[str]) -> _Ids:
    fields = [_field(message, number, name) for name in names]
    kind = message_factory.GetMessageClass(message)

    def ids(encoded: bytes) -> list[object]:
        row = kind.FromString(encoded)
        return [
            None if field.has_presence and not row.HasField(field.name) else getattr(row, field.name)
            for field in fields
        ]

    return ids


def _field(message: Any, number: int, name: str) -> Any:
    field = message.fields_by_name.get(name)
    if field is None:
        names = ", ".join(message.fields_by_name)[:200]
        raise BadRequest(f"message {message.full_name} of schema {number} has no field {name}: it has {names}")
    others = field.TYPE_MESSAGE, field.TYPE_GROUP, field.TYPE_ENUM, field.TYPE_BOOL, field.TYPE_DOUBLE, field.TYPE_FLOAT
    if field.is_repeated or field.type in others:
        raise BadRequest(f"field {name} of {message.full_name}, schema {number}, cannot be an id; ids are {ID_TYPES}")
    return field
