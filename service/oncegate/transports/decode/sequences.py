"""Sequences from each door as one array, uint64; from there on no door differs from another.

Their order, number and bounds are checked by the engine, for all doors.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits
from oncegate.engine.producer_requests import SequenceRequest
from oncegate.engine.requests import Rows
from oncegate.transports.decode.arrow_ipc import read_stream
from oncegate.transports.http.messages.claims import SEQUENCE_MAX, ProduceQuery, ProduceRequest
from oncegate.transports.http.messages.producers import SequencesRequest

Sequences = NDArray[np.uint64]
_BYTES = 8


def of_json(message: SequencesRequest, limits: Limits) -> Sequences:
    """uint64[n] from `sequences`, or from `first` to `last`. Raises BadRequest, TooLarge."""
    if message.sequences is not None and (message.first, message.last) == (None, None):
        return of_numbers(message.sequences, "sequences")
    if message.sequences is not None or message.first is None or message.last is None:
        raise BadRequest("either sequences, or first and last")
    if message.last < message.first:
        raise BadRequest(f"first {message.first} comes after last {message.last}")
    if (count := message.last - message.first + 1) > limits.ids_per_request:
        raise TooLarge(f"{count} sequences in one request; at most {limits.ids_per_request}")
    ends = of_numbers([message.first, message.last], "first and last")
    return np.arange(ends[0], ends[1] + np.uint64(1), dtype=np.uint64)


def of_packed(body: bytes) -> Sequences:
    """Eight little-endian bytes each."""
    if len(body) % _BYTES:
        raise BadRequest(f"a packed body has {_BYTES} bytes a sequence; {len(body)} bytes are not a whole number")
    return np.frombuffer(body, "<u8").astype(np.uint64, copy=False)


def of_arrow(body: bytes, limits: Limits) -> Sequences:
    """One IPC stream with one column of whole numbers."""
    schema, batches = read_stream(body, limits.body_bytes)
    if len(schema) != 1:
        raise BadRequest(f"sequences are one column; the stream has {', '.join(schema.names) or 'none'}")
    return of_column(pa.Table.from_batches(batches, schema).column(0), schema.names[0])


def of_rows(rows: Rows, asked: ProduceRequest | ProduceQuery, token: bytes, call: int) -> SequenceRequest | None:
    """What the rows' own column claims of its producer; None where no producer is named. Raises BadRequest."""
    producer, epoch, name = asked.producer, asked.epoch, asked.sequence_col
    if (producer, epoch, name, asked.prev_sequence) == (None, None, None, None):
        return None
    if producer is None or epoch is None or name is None:
        raise BadRequest("producer, epoch and sequence_col go together")
    if asked.id_col:
        raise BadRequest("a row is known by id_col, or by producer and sequence_col, not by both")
    if name not in rows.schema.names:
        raise BadRequest(f"sequence_col names {name!r}, and the rows have {', '.join(rows.schema.names)}")
    found = of_column(pa.Table.from_batches(rows.batches, rows.schema).column(name), name)
    if asked.prev_sequence is not None:
        of_numbers([asked.prev_sequence], "prev_sequence")
    return SequenceRequest(producer, epoch, token, call, found, asked.prev_sequence)


def of_column(column: pa.ChunkedArray, name: str) -> Sequences:
    """uint64[n] of a column of whole numbers. Raises BadRequest for another type, for null, for one below 0."""
    if not pa.types.is_integer(column.type):
        raise BadRequest(f"column {name!r} has the type {column.type}; sequences are whole numbers")
    if column.null_count:
        raise BadRequest(f"column {name!r}: {column.null_count} of {len(column)} rows have no sequence")
    try:
        found: Sequences = column.cast(pa.uint64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise BadRequest(f"column {name!r}: {error}; sequences are whole numbers from 0 to {SEQUENCE_MAX}") from error
    return found


def of_numbers(numbers: list[int], what: str) -> Sequences:
    """uint64[n]. Raises BadRequest for what does not fit."""
    if max(numbers, default=0) > SEQUENCE_MAX:
        raise BadRequest(f"{what}: whole numbers from 0 to {SEQUENCE_MAX} are wanted, not {max(numbers)}")
    return np.array(numbers, np.uint64)
