"""Encodes columns of records into Kafka record batches, without a Python object per record.

Format: record batch v2 (KIP-98): a header of 61 bytes, then the records, with zig-zag varints for lengths. The output
is byte for byte that of aiokafka's own builder.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from crc32c import crc32c
from numba import types

from oncegate.arraytypes import I64, U8
from oncegate.clock import wall_ms
from oncegate.compilation import compiled

# Maximum size of a batch; the brokers' default limit is 1,048,588 bytes.
BATCH_BYTES = 900_000
# Maximum size of a record beside its fields: length, attributes, time delta and offset delta.
_OVERHEAD_BYTES = 21
# Maximum size of a field's length.
_LENGTH_BYTES = 5
# Base offset, length, leader's epoch, magic, CRC, attributes, last offset, first and last time, producer's id and
# epoch, first sequence, records.
_HEAD = struct.Struct(">qiibIhiqqqhii")
# First byte covered by the header's length, and by its CRC.
_COUNTED_FROM, _SUMMED_FROM = 12, 21
_MAGIC, _TRANSACTIONAL = 2, 0x10
# Mask: sequences wrap around to 0 after this value, as in Kafka's Java producer.
_SEQUENCES = 0x7FFFFFFF


class RecordTooLarge(ValueError):
    """Row `row` does not fit in a batch of `batch_bytes`; nothing was encoded."""

    def __init__(self, row: int, size_bytes: int, batch_bytes: int) -> None:
        super().__init__(f"row {row} takes {size_bytes} bytes as a record, and a batch takes {batch_bytes}")
        self.row, self.size_bytes, self.batch_bytes = row, size_bytes, batch_bytes


@dataclass(frozen=True, slots=True)
class Field:
    """One field of all records: row i is `data[starts[i] : starts[i] + lengths[i]]`; length −1 is null.

    `data`: uint8; `starts`, `lengths`: int64 (n,). `prefix`: bytes before the field in each record, as a header's name.
    """

    data: U8
    starts: I64
    lengths: I64
    prefix: bytes = b""


@dataclass(frozen=True, slots=True)
class RowHeaders:
    """Headers that differ from row to row: row i has the items `starts[i] : starts[i] + counts[i]`.

    `starts`, `counts`: int64 (n,). `names`, `values`: fields of all m items; a name is never null.
    """

    starts: I64
    counts: I64
    names: Field
    values: Field

    def sizes(self) -> I64:
        """Returns the encoded size of each row's headers in bytes: int64 (n,)."""
        items = np.zeros(len(self.names.lengths) + 1, np.int64)
        for field in (self.names, self.values):
            items[1:] += _varint_sizes(field.lengths) + np.maximum(field.lengths, 0)
        ends = np.cumsum(items)
        return np.asarray(ends[self.starts + self.counts] - ends[self.starts], np.int64)


@dataclass(frozen=True, slots=True)
class Records:
    """Columns of n records.

    `times_ms`: int64 (n,), milliseconds since 1970. `headers`: names and fields; every row has all of them.
    `row_headers`: each row's own headers, written before `headers`.
    """

    times_ms: I64
    keys: Field
    values: Field
    headers: Sequence[tuple[str, Field]] = ()
    row_headers: RowHeaders | None = None

    def fields(self) -> list[Field]:
        """Returns a record's fields in order; header names and the header count become prefixes."""
        found = [self.keys, self.values]
        for number, (name, field) in enumerate(self.headers):
            is_first = number == 0 and self.row_headers is None
            count = _varint(len(self.headers)) if is_first else b""
            prefix = count + _varint(len(name.encode())) + name.encode()
            found.append(Field(field.data, field.starts, field.lengths, prefix))
        return found


class RecordBatch:
    """An encoded batch whose header its producer fills in.

    `codec`: Kafka's number of the compression of the records; 0: none.
    """

    def __init__(self, encoded: bytearray, records: int, first_ms: int, last_ms: int, codec: int = 0) -> None:
        self._encoded = encoded
        self._records = records
        self._times = first_ms, last_ms
        self._codec = codec

    def compressed(self, codec: int, compress: Callable[[memoryview], bytes]) -> "RecordBatch":
        """Returns the batch with compressed records, or this batch if that is not smaller."""
        assert not self._codec, "it is compressed already"
        packed = compress(memoryview(self._encoded)[_HEAD.size :])
        encoded = bytearray(_HEAD.size) + packed
        if len(encoded) >= len(self._encoded):
            return self
        return RecordBatch(encoded, self._records, *self._times, codec)

    def record_count(self) -> int:
        return self._records

    def size(self) -> int:
        return len(self._encoded)

    def of_producer(self, producer_id: int, epoch: int, sequence: int) -> bytearray:
        """Fills in the header for a transactional producer and returns the bytes; no copy is made.

        `sequence`: number of records that the producer has already written to the partition. −1 for all three: a
        producer without id and transaction.
        """
        encoded, last = self._encoded, self._records - 1
        attributes = self._codec | (_TRANSACTIONAL if producer_id >= 0 else 0)
        first = sequence & _SEQUENCES if sequence >= 0 else sequence
        tail = (attributes, last, *self._times, producer_id, epoch, first, self._records)
        _HEAD.pack_into(encoded, 0, 0, len(encoded) - _COUNTED_FROM, -1, _MAGIC, 0, *tail)
        _CRC.pack_into(encoded, _SUMMED_FROM - _CRC.size, crc32c(memoryview(encoded)[_SUMMED_FROM:]))
        return encoded


_CRC = struct.Struct(">I")
_memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))


def encode(records: Records, batch_bytes: int = BATCH_BYTES) -> list[RecordBatch]:
    """Encodes the records, in order, into as few batches of at most `batch_bytes` as possible;
    returns none for no records.

    Raises RecordTooLarge: a single record exceeds `batch_bytes`.
    """
    fields, own_bytes = records.fields(), _own_bytes(records)
    cuts = _cuts(fields, own_bytes, batch_bytes)
    return [_encoded(records, fields, own_bytes, slice(*cut)) for cut in pairwise(cuts)]


def record_batches(records: Sequence[tuple[bytes | None, bytes | memoryview | None]]) -> list[RecordBatch]:
    """Encodes keys and values as records with the current time. Raises RecordTooLarge."""
    keys, values = (_field([record[place] for record in records]) for place in (0, 1))
    return encode(Records(np.full(len(records), wall_ms(), np.int64), keys, values))


def _field(items: Sequence[bytes | memoryview | None]) -> Field:
    lengths = np.fromiter((len(one or b"") for one in items), np.int64, len(items))
    starts = np.cumsum(lengths) - lengths
    lengths[[one is None for one in items]] = -1
    return Field(np.frombuffer(b"".join(one or b"" for one in items), np.uint8), starts, lengths)


def check(records: Records, batch_bytes: int = BATCH_BYTES) -> None:
    """Raises RecordTooLarge as `encode` would, without encoding."""
    _cuts(records.fields(), _own_bytes(records), batch_bytes)


def _own_bytes(records: Records) -> I64:
    """Returns the size in bytes of each row's own headers, plus its header count unless a prefix has that:
    int64 (n,).
    """
    own, count = records.row_headers, len(records.times_ms)
    if own is None:
        return np.full(count, 0 if records.headers else 1, np.int64)
    return own.sizes() + _varint_sizes(own.counts + len(records.headers))


def _cuts(fields: Sequence[Field], own_bytes: I64, batch_bytes: int) -> list[int]:
    """Returns the first row of each batch, then the number of rows; uses an upper bound of each record's size."""
    count, sizes = len(own_bytes), own_bytes + _OVERHEAD_BYTES
    for field in fields:
        sizes += np.maximum(field.lengths, 0) + (_LENGTH_BYTES + len(field.prefix))
    room = batch_bytes - _HEAD.size
    if (large := np.flatnonzero(sizes > room)).size:
        raise RecordTooLarge(int(large[0]), int(sizes[large[0]]), batch_bytes)
    ends, cuts = np.cumsum(sizes), [0] if count else []
    while cuts and cuts[-1] < count:
        before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(int(np.searchsorted(ends, before + room, side="right")))
    return cuts


def _encoded(records: Records, fields: Sequence[Field], own_bytes: I64, rows: slice) -> RecordBatch:
    times_ms, own = records.times_ms, records.row_headers
    deltas, count = times_ms[rows] - times_ms[rows.start], rows.stop - rows.start
    offsets = np.arange(count, dtype=np.int64)
    bodies = 1 + _varint_sizes(deltas) + _varint_sizes(offsets) + own_bytes[rows]
    for field in fields:
        lengths = field.lengths[rows]
        bodies += np.maximum(lengths, 0) + _varint_sizes(lengths) + len(field.prefix)
    ends = np.cumsum(bodies + _varint_sizes(bodies)) + _HEAD.size
    encoded = bytearray(int(ends[-1]))
    out, at = np.frombuffer(encoded, np.uint8), np.concatenate(([_HEAD.size], ends[:-1]))
    _write_beginnings(out, at, bodies, deltas)
    for number, field in enumerate(fields):
        if number == 2 and own is not None:
            _write_row_headers(out, at, *_plain_headers(own, rows), len(records.headers))
        starts, lengths = np.ascontiguousarray(field.starts[rows]), np.ascontiguousarray(field.lengths[rows])
        _write_field(out, at, np.frombuffer(field.prefix, np.uint8), _read_only(field.data), starts, lengths)
    if own is not None and len(fields) == 2:
        _write_row_headers(out, at, *_plain_headers(own, rows), 0)
    del out
    return RecordBatch(encoded, count, int(times_ms[rows.start]), int(times_ms[rows].max()))


def _read_only(data: U8) -> U8:
    """Returns a read-only view: Arrow's arrays are read-only, so the loops are compiled for one type only."""
    data = data.view()
    data.flags.writeable = False
    return data


def _plain_headers(own: RowHeaders, rows: slice) -> list[Any]:
    """Returns the arguments of `_write_row_headers`; each array is contiguous."""
    found: list[Any] = [np.ascontiguousarray(own.starts[rows]), np.ascontiguousarray(own.counts[rows])]
    for field in (own.names, own.values):
        found += [_read_only(field.data), np.ascontiguousarray(field.starts), np.ascontiguousarray(field.lengths)]
    return found


def _varint(number: int) -> bytes:
    out, size = np.zeros(10, np.uint8), int(_varint_sizes(np.array([number]))[0])
    _put(out, 0, number)
    return out[:size].tobytes()


def _varint_sizes(numbers: I64) -> I64:
    """Returns the size of each number as a zig-zag varint: int64 (n,), bytes."""
    sizes = np.empty(len(numbers), np.int64)
    _count_bytes(np.ascontiguousarray(numbers), sizes)
    return sizes


@compiled
def _count_bytes(numbers: I64, sizes: I64) -> None:
    """Writes the size of each number as a zig-zag varint into `sizes`."""
    for row in range(len(numbers)):
        folded = np.uint64((numbers[row] << 1) ^ (numbers[row] >> 63))
        sizes[row] = 1
        while folded >= np.uint64(128):
            folded >>= np.uint64(7)
            sizes[row] += 1


@compiled
def _put(out: U8, at: int, number: int) -> int:
    """Writes a zig-zag varint; returns the position after it."""
    folded = np.uint64((number << 1) ^ (number >> 63))
    while folded >= np.uint64(128):
        out[at] = np.uint8((folded & np.uint64(127)) | np.uint64(128))
        folded >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(folded)
    return at + 1


@compiled
def _write_beginnings(out: U8, at: I64, bodies: I64, deltas: I64) -> None:
    """Writes each record's length, attributes, time and offset at the position in `at`, and advances `at`."""
    for row in range(len(at)):
        place = _put(out, at[row], bodies[row]) + 1
        place = _put(out, place, deltas[row])
        at[row] = _put(out, place, row)


@compiled
def _write_field(out: U8, at: I64, prefix: U8, data: U8, starts: I64, lengths: I64) -> None:
    """Writes one field of each record at the position in `at`, and advances `at`; a null has length −1."""
    for row in range(len(at)):
        place = at[row]
        for byte in prefix:
            out[place] = byte
            place += 1
        length = lengths[row]
        place = _put(out, place, length)
        if length > 0:
            # Not a slice assignment: slicing costs as much as copying some hundred bytes.
            _memcpy(out.ctypes.data + place, data.ctypes.data + starts[row], length)
            place += length
        at[row] = place


@compiled
def _write_row_headers(
    out: U8,
    at: I64,
    firsts: I64,
    counts: I64,
    names: U8,
    name_starts: I64,
    name_lengths: I64,
    values: U8,
    value_starts: I64,
    value_lengths: I64,
    more: int,
) -> None:
    """Writes each record's header count and own headers at the position in `at`, and advances `at`.

    The count includes `more` headers that are written elsewhere.
    """
    for row in range(len(at)):
        place = _put(out, at[row], counts[row] + more)
        for item in range(firsts[row], firsts[row] + counts[row]):
            length = name_lengths[item]
            place = _put(out, place, length)
            _memcpy(out.ctypes.data + place, names.ctypes.data + name_starts[item], length)
            place += length
            length = value_lengths[item]
            place = _put(out, place, length)
            if length > 0:
                _memcpy(out.ctypes.data + place, values.ctypes.data + value_starts[item], length)
                place += length
        at[row] = place


def warm_up() -> None:
    """Compiles the kernels, or loads them from the cache."""
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    field = Field(np.zeros(1, np.uint8), zero, one)
    encode(Records(zero, field, field, [("name", field)], RowHeaders(zero, one, field, field)))
