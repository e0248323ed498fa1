"""Generates ids and request bodies for the load, by columns, before the clock starts.

Ids are numbered in streams and computed from their number, so any process can recompute the ids of another.
Every tenth id of a run belongs to stream 0, with which the servers are prefilled.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

U8, U64 = NDArray[np.uint8], NDArray[np.uint64]

LIVE_STREAM = 0
# Every tenth id is already known: 10 % duplicates.
KNOWN_EVERY = 10
UUID_CHARS = 36
# Positions of the digits in the text of a UUID.
_DIGITS = [place for place in range(UUID_CHARS) if place not in (8, 13, 18, 23)]
_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)


def numbered(stream: int, first: int, count: int) -> U64:
    """Returns `count` ids of a stream from number `first`, uint64 (count, 2).

    An id is splitmix64 (Steele, Lea, Flood 2014) of stream and number.
    """
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return of_numbers(stream, numbers)


def of_numbers(stream: int, numbers: U64) -> U64:
    """Returns the ids with these numbers in a stream."""
    ids = np.empty((len(numbers), 2), np.uint64)
    with np.errstate(over="ignore"):
        ids[:, 0] = _mixed(numbers + np.uint64((stream << 40) + 1))
        ids[:, 1] = _mixed(ids[:, 0] ^ np.uint64(0x9E3779B97F4A7C15))
    return ids


def _mixed(words: U64) -> U64:
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def mixed(stream: int, count: int, live: int) -> U64:
    """Returns `count` ids for a run: every tenth is a random live id, all others are new."""
    ids = numbered(stream, 0, count)
    repeated = np.random.default_rng(stream).integers(0, live, -(-count // KNOWN_EVERY), dtype=np.uint64)
    ids[::KNOWN_EVERY] = of_numbers(LIVE_STREAM, repeated)
    return ids


def is_known(first: int, count: int) -> NDArray[np.bool_]:
    """Returns which of `count` ids of a run, from number `first`, are live ones."""
    return (np.arange(first, first + count) % KNOWN_EVERY) == 0


def text_of(ids: U64) -> U8:
    """Formats each id as the text of a UUID, uint8 (n, 36)."""
    digits = _HEX[np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), 16)].reshape(len(ids), 32)
    text = np.full((len(ids), UUID_CHARS), ord("-"), np.uint8)
    text[:, _DIGITS] = digits
    return text


def arrow_stream(text: U8) -> bytes:
    """Returns one column of strings as an IPC stream of one batch."""
    count = len(text)
    offsets = pa.py_buffer(np.arange(0, (count + 1) * UUID_CHARS, UUID_CHARS, dtype=np.int32))
    column = pa.StringArray.from_buffers(count, offsets, pa.py_buffer(np.ascontiguousarray(text)))
    batch = pa.record_batch([column], names=["id"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def records(stream: int, first: int, count: int, row_bytes: int) -> tuple[U8, U8]:
    """Returns keys uint8 (n, 16) and values uint8 (n, row_bytes) of distinct rows of a stream, from number `first`."""
    keys = numbered(stream, first, count).view(np.uint8).reshape(count, 16)
    values = np.random.default_rng([stream, first]).integers(0, 256, (count, row_bytes), np.uint8)
    return keys, values


def rows_stream(keys: U8, values: U8) -> bytes:
    """Returns binary columns `key` and `value` as an IPC stream of one batch."""
    columns = [_binary(keys), _binary(values)]
    batch = pa.record_batch(columns, names=["key", "value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _binary(cells: U8) -> pa.BinaryArray:
    count, width = cells.shape
    offsets = pa.py_buffer(np.arange(0, (count + 1) * width, width, dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(np.ascontiguousarray(cells))])


def json_body(token: str, text: U8) -> bytes:
    """Returns a claim as JSON without spaces, as compact encoders write it."""
    quoted = np.empty((len(text), UUID_CHARS + 3), np.uint8)
    quoted[:, 0] = quoted[:, -2] = ord('"')
    quoted[:, 1:-2], quoted[:, -1] = text, ord(",")
    return b'{"token":"%s","call":0,"ids":[%s]}' % (token.encode(), quoted.tobytes()[:-1])
