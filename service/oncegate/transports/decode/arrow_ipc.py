"""Reads Arrow IPC streams from untrusted callers, with full validation.

Refused besides malformed bytes: dictionaries, run ends, views, unions, null and zero-width types, and buffers that
share bytes. With each of these a few bytes of body could become gigabytes of memory, or rows could not be told apart.
Compressed buffers (LZ4, ZSTD) are read up to their announced size.
"""

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Batch, Rows, Schema

# Reading a message costs some 50 us; a request usually has a few.
_MESSAGES_MAX = 4_096
_RECORD_BATCH = 3
_FIELDS = {"message_type": 1, "message_header": 2, "batch_buffers": 2, "batch_compression": 3}
_BUFFER = struct.Struct("<qq")


def read_stream(
    data: bytes | memoryview, bytes_max: int, columns_max: int = Limits.columns_per_request
) -> tuple[Schema, list[Batch]]:
    """Reads the schema and the record batches of one complete IPC stream.

    Raises:
        BadRequest: not one complete stream, or a type that is refused.
        TooLarge: compressed buffers announce more than `bytes_max` in all; more than `columns_max` columns, nested
            ones included; or more than 4,096 record batches.
    """
    try:
        announced = 0
        for count, message in enumerate(pa.ipc.MessageReader.open_stream(data)):
            if count > _MESSAGES_MAX:
                raise TooLarge(f"the Arrow stream has more than {_MESSAGES_MAX} record batches: join them")
            if message.type == "record batch" and message.body is not None:
                announced += _announced(message.metadata.to_pybytes(), memoryview(message.body))
        if announced > bytes_max:
            raise TooLarge(f"{announced} bytes when uncompressed; at most {bytes_max} are read")
        source = pa.BufferReader(data)
        with pa.ipc.open_stream(source) as reader:
            _refuse_types(reader.schema, columns_max)
            batches = list(reader)
            schema = reader.schema
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise BadRequest(f"the Arrow stream cannot be read: {str(error).splitlines()[0]}") from error
    if source.closed is False and source.tell() != len(data):
        raise BadRequest(f"{len(data) - source.tell()} bytes follow the end of the Arrow stream")
    return schema, batches


def _announced(metadata: bytes, body: memoryview) -> int:
    """Returns the announced size of a record batch's compressed buffers; 0 if none is compressed (format/Message.fbs).

    Raises BadRequest if the buffers together are longer than the body: several columns would share its bytes.
    """
    message = struct.unpack_from("<I", metadata)[0]
    kind_at = _field(metadata, message, _FIELDS["message_type"])
    header_at = _field(metadata, message, _FIELDS["message_header"])
    if not kind_at or not header_at or metadata[kind_at] != _RECORD_BATCH:
        return 0
    batch = header_at + struct.unpack_from("<I", metadata, header_at)[0]
    at = _field(metadata, batch, _FIELDS["batch_buffers"])
    if not at:
        return 0
    vector = at + struct.unpack_from("<I", metadata, at)[0]
    count = struct.unpack_from("<I", metadata, vector)[0]
    buffers = [_BUFFER.unpack_from(metadata, vector + 4 + 16 * n) for n in range(count)]
    if sum(length for _, length in buffers) > len(body):
        raise BadRequest("the Arrow stream's buffers share bytes: each needs bytes of its own")
    if not _field(metadata, batch, _FIELDS["batch_compression"]):
        return 0
    # Each buffer begins with its uncompressed length; -1: it is stored uncompressed.
    sizes = (struct.unpack_from("<q", body, offset)[0] for offset, length in buffers if length >= 8)
    return sum(max(0, size) for size in sizes)


def _field(data: bytes, table: int, number: int) -> int:
    """Returns the position of a field of a flatbuffer table; 0 if the field is absent."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    slot = 4 + 2 * number
    if slot >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + slot)[0]
    return table + offset if offset else 0


def _refuse_types(schema: Schema, columns_max: int) -> None:
    if sum(1 for _ in islice(_all_leaves(schema), columns_max + 1)) > columns_max:
        raise TooLarge(f"the schema has more than {columns_max} columns, with those inside of others")
    names = schema.names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadRequest(f"the Arrow stream has two columns named {twice!r}")
    for field in schema:
        for kind in leaves(field.type):
            if not _plain(kind):
                raise BadRequest(f"column {field.name!r} has the type {field.type}; {kind} is not read here: cast it")
            if pa.types.is_timestamp(kind) and kind.tz is not None:
                _check_zone(field.name, kind)


def _check_zone(name: str, kind: Any) -> None:
    """Refuses an unknown time zone: its values could be stored but never returned as JSON."""
    try:
        pa.scalar(0, kind).as_py()
    except (ValueError, KeyError, OSError, pa.ArrowException) as error:
        raise BadRequest(f"column {name!r} is of an unknown time zone: {kind.tz!r}") from error


def _all_leaves(schema: Schema) -> Iterator[Any]:
    for index in range(len(schema)):
        yield from leaves(schema.field(index).type)


def leaves(kind: Any) -> Iterator[Any]:
    """Yields the leaf types of a type: the type itself, or those nested in it."""
    if pa.types.is_nested(kind) and kind.num_fields and not _odd(kind):
        for index in range(kind.num_fields):
            yield from leaves(kind.field(index).type)
    else:
        yield kind


def _odd(kind: Any) -> bool:
    return bool(
        pa.types.is_union(kind)
        or pa.types.is_run_end_encoded(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
        or (pa.types.is_fixed_size_list(kind) and kind.list_size == 0)
    )


def _plain(kind: Any) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return False
    return _variable(kind) or bool((pa.types.is_primitive(kind) or _fixed(kind)) and kind.bit_width > 0)


def _variable(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _fixed(kind: Any) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind))


def read_schema(data: bytes, columns_max: int = Limits.columns_per_request) -> Schema:
    """Reads a schema in IPC form.

    Raises BadRequest for bytes that are not a schema, and for refused types; TooLarge for too many columns.
    """
    try:
        schema = pa.ipc.read_schema(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise BadRequest(f"schema_ipc cannot be read: {str(error).splitlines()[0]}") from error
    if not schema.names:
        raise BadRequest("schema_ipc has no columns")
    _refuse_types(schema, columns_max)
    return schema


def read_rows(data: bytes | memoryview, limits: Limits) -> Rows:
    """Reads records to be written. Raises BadRequest; TooLarge, which names a record over the limit."""
    schema, batches = read_stream(data, limits.body_bytes, limits.columns_per_request)
    if not schema.names:
        raise BadRequest("the Arrow stream has no columns")
    first = 0
    for batch in batches:
        if _record_bytes_at_most(batch) > limits.record_bytes:
            sizes = record_bytes(batch)
            at = int(np.argmax(sizes))
            if sizes[at] > limits.record_bytes:
                raise TooLarge(f"record {first + at} has {sizes[at]} bytes; at most {limits.record_bytes} are taken")
        first += batch.num_rows
    if first > limits.rows_per_request:
        raise TooLarge(f"{first} rows in one request; at most {limits.rows_per_request} are taken")
    return Rows(schema, batches, first, data)


def _record_bytes_at_most(batch: Batch) -> int:
    """Returns an upper bound for the size of the largest record: counts all bytes of variable-width columns as one
    record.
    """
    total = 0
    for column in batch.columns:
        varies = _variable(column.type) or pa.types.is_nested(column.type)
        total += column.nbytes if varies else -(-column.type.bit_width // 8)
    return total


def record_bytes(batch: Batch) -> NDArray[np.int64]:
    """Counts the bytes of each record's values: int64[rows]."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        sizes += _value_bytes(column)
    return sizes


def _value_bytes(array: Any) -> NDArray[np.int64]:
    kind = array.type
    if _variable(kind):
        return np.asarray(pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_struct(kind):
        children = [_value_bytes(child) for child in array.flatten()]
        return np.asarray(np.sum(children, axis=0), np.int64)
    if pa.types.is_fixed_size_list(kind):
        child = _value_bytes(array.values[array.offset * kind.list_size :][: len(array) * kind.list_size])
        return np.asarray(child.reshape(len(array), kind.list_size).sum(axis=1), np.int64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["k", "v"]) if pa.types.is_map(kind) else None
        child = _value_bytes(array.values if entries is None else entries)
        sums = np.concatenate(([0], np.cumsum(child)))
        return np.asarray(sums[offsets[1:]] - sums[offsets[:-1]], np.int64)
    return np.full(len(array), -(-kind.bit_width // 8), np.int64)
