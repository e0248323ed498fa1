"""Extracts ids from Kafka records: from the key, a header, or members, columns or fields of the value.

    key     header:NAME     json:NAME[,NAME]     arrow:NAME[,NAME]     avro:NAME[,NAME]     protobuf:NAME[,NAME]

A record without one (no such header, or two of them; a value that is not such JSON) has a null id. JSON, Avro and
Protobuf of a schema registry begin with Confluent's wire format: a zero byte and the schema's number in 4 bytes,
big-endian
(https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format). For
JSON it is skipped; for Avro and Protobuf the schema is fetched from the registry.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from oncegate.core.errors import BadRequest
from oncegate.transports.decode.columns import check_key, split_names
from oncegate.verifier.ids import as_ids

# Converts records of aiokafka to a table of ids.
IdsOf = Callable[[Sequence[Any]], pa.Table]
# Confluent's wire format. No JSON text begins with this byte.
_FRAMED, _FRAME_BYTES = b"\0", 5
FORMS = "key, header:NAME, json:NAME[,NAME], arrow:NAME[,NAME], avro:NAME[,NAME] or protobuf:NAME[,NAME]"


class SchemaRegistry(NamedTuple):
    """The address of a schema registry. ca: PEM file of its certificate's CA; None: the commonly trusted ones."""

    url: str
    ca: Path | None = None


def ids_of(form: str, registry: SchemaRegistry | None = None) -> IdsOf:
    """Returns a function that extracts ids in this form; it raises the errors of the schema registry.

    Raises BadRequest if the form is unknown, lacks its registry, or has one that it does not use; NotFound if the
    registry does not answer.
    """
    kind, _, names = form.partition(":")
    if kind in _REGISTERED and names:
        if registry is None:
            raise BadRequest(f"{form} needs the schema registry of the values: add --registry URL")
        return _of_registered(kind, names, registry)
    if form != "key" and (kind not in _FINDERS or not names):
        raise BadRequest(f"--output-id {form} is unknown; use one of {FORMS}")
    if registry is not None:
        raise BadRequest(f"--registry applies only to values in Avro and Protobuf, not to {form}: remove it")
    if form == "key":
        return lambda records: pa.table({"key": pa.array([record.key for record in records], pa.binary())})
    return _FINDERS[kind](names)


def _of_registered(kind: str, text: str, registry: SchemaRegistry) -> IdsOf:
    # Imported here, since their libraries are an extra.
    from oncegate.verifier.sources.kafka_ids import finder
    from oncegate.verifier.sources.registry import Registry

    names, reader_of = check_key(split_names(text), "--output-id"), _reader_of(kind)
    schemas = Registry(registry.url, registry.ca, kind.upper())
    return finder(names, lambda number: reader_of(schemas.schema(number), number, names))


def _reader_of(kind: str) -> Any:
    if kind == "avro":
        from oncegate.verifier.sources.avro_ids import reader_of
    else:
        from oncegate.verifier.sources.protobuf_ids import reader_of
    return reader_of


def _of_header(name: str) -> IdsOf:
    def found(records: Sequence[Any]) -> pa.Table:
        values = ([value for key, value in record.headers if key == name] for record in records)
        return pa.table(
            {name: pa.array([headers[0] if len(headers) == 1 else None for headers in values], pa.binary())}
        )

    return found


def _of_json(text: str) -> IdsOf:
    names = check_key(split_names(text), "--output-id")
    fields = [(f"member_{n}", str | int | None, None) for n in range(len(names))]
    rename = {f"member_{n}": name for n, name in enumerate(names)}
    decoder = msgspec.json.Decoder(msgspec.defstruct("Value", fields, rename=rename))

    def found(records: Sequence[Any]) -> pa.Table:
        rows = [_members(decoder, record.value) for record in records]
        columns = [[None if row is None else getattr(row, member) for row in rows] for member in rename]
        texts = [[None if value is None else str(value) for value in column] for column in columns]
        return pa.table([pa.array(column, pa.string()) for column in texts], names)

    return found


def _members(decoder: Any, value: bytes | None) -> Any:
    try:
        return None if value is None else decoder.decode(value[_FRAME_BYTES:] if value[:1] == _FRAMED else value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _of_arrow(text: str) -> IdsOf:
    names = check_key(split_names(text), "--output-id")

    def found(records: Sequence[Any]) -> pa.Table:
        rows = [_row(record.value, names) for record in records]
        kept = [row for row in rows if row is not None]
        table = pa.concat_tables(kept) if kept else pa.table({name: pa.array([], pa.binary()) for name in names})
        numbers = iter(range(len(kept)))
        return table.take(pa.array([None if row is None else next(numbers) for row in rows], pa.int64()))

    return found


def _row(value: bytes | None, names: list[str]) -> pa.Table | None:
    """Returns the ids of a one-row IPC stream as bytes; None if the value is not such a stream, or lacks a column."""
    try:
        table = as_ids(pa.ipc.open_stream(value or b"").read_all(), names)
    except (pa.ArrowException, OSError, BadRequest):
        return None
    return table.cast(pa.schema([(name, pa.binary()) for name in names])) if len(table) == 1 else None


_REGISTERED = {"avro", "protobuf"}
_FINDERS: dict[str, Callable[[str], IdsOf]] = {"header": _of_header, "json": _of_json, "arrow": _of_arrow}


# Converts a whole value to its ids, in the order of their names; None: it is not such a value.
ReadIds = Callable[[bytes], Sequence[object] | None]
HEAD_BYTES = 5
ID_TYPES = "texts, bytes or whole numbers"
# The same as the cache of the registry's client.
SCHEMAS_MAX = 1_000


def finder(names: Sequence[str], reader: Callable[[int], ReadIds]) -> Callable[[Sequence[Any]], pa.Table]:
    """Returns a function that extracts the ids of records. reader: makes the reader of a schema, given its number;
    called once for each.

    A value without a number, or of another kind, has null ids. A BadRequest is raised with the location of its record.
    """
    reader = lru_cache(SCHEMAS_MAX)(reader)

    def found(records: Sequence[Any]) -> pa.Table:
        rows = [_ids(record, reader) for record in records]
        columns = [[None if row is None else _bytes(row[n]) for row in rows] for n in range(len(names))]
        return pa.table([pa.array(column, pa.binary()) for column in columns], list(names))

    return found


def _ids(record: Any, reader: Callable[[int], ReadIds]) -> Sequence[object] | None:
    value = record.value
    if value is None or len(value) < HEAD_BYTES or value[0]:
        return None
    try:
        return reader(int.from_bytes(value[1:HEAD_BYTES], "big"))(value)
    except BadRequest as error:
        where = f"the value at offset {record.offset} of partition {record.partition}"
        raise BadRequest(f"{where}: {error.detail}") from error


def _bytes(value: object) -> bytes | None:
    """Returns an id in the form of all transports: text as its bytes, a number as its decimal text."""
    if value is None or isinstance(value, bytes):
        return value
    assert isinstance(value, str | int), "other types are rejected with their schema"
    return str(value).encode(errors="surrogatepass")
