"""Reads sequences in JSON, packed and Arrow encoding as one array of uint64.

The engine checks their order, number and bounds for every transport.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.core.producers import SEQUENCE_MAX
from oncegate.engine.limits import Limits
from oncegate.engine.requests import Rows, Sender, SequenceRequest
from oncegate.transports.decode import columns
from oncegate.transports.decode.arrow_ipc import read_stream

Sequences = NDArray[np.uint64]
_BYTES = 8


def of_json(numbers: list[int] | None, first: int | None, last: int | None, limits: Limits) -> Sequences:
    """Reads uint64[n] from a list, or from the first and the last of a range. Raises BadRequest, TooLarge."""
    if numbers is not None and (first, last) == (None, None):
        return of_numbers(numbers, "sequences")
    if numbers is not None or first is None or last is None:
        raise BadRequest("either sequences, or first and last")
    if last < first:
        raise BadRequest(f"first {first} comes after last {last}")
    if (count := last - first + 1) > limits.ids_per_request:
        raise TooLarge(f"{count} sequences in one request; at most {limits.ids_per_request}")
    ends = of_numbers([first, last], "first and last")
    return np.arange(ends[0], ends[1] + np.uint64(1), dtype=np.uint64)


def of_packed(body: bytes) -> Sequences:
    """Reads uint64[n], eight little-endian bytes each. Raises BadRequest."""
    if len(body) % _BYTES:
        raise BadRequest(f"a packed body has {_BYTES} bytes a sequence; {len(body)} bytes are not a whole number")
    return np.frombuffer(body, "<u8").astype(np.uint64, copy=False)


def of_arrow(body: bytes, limits: Limits) -> Sequences:
    """Reads uint64[n] from an IPC stream with one integer column. Raises BadRequest, TooLarge."""
    schema, batches = read_stream(body, limits.body_bytes)
    if len(schema) != 1:
        raise BadRequest(f"sequences are one column; the stream has {', '.join(schema.names) or 'none'}")
    return of_column(pa.Table.from_batches(batches, schema).column(0), schema.names[0])


@dataclass(frozen=True, slots=True)
class SequenceColumn:
    """The producer of a request's rows and the column `name` of their sequences; all fields are None if `absent`.

    prev_sequence: the sequence before the first row's; optional.
    """

    producer: str | None
    epoch: int | None
    name: str | None
    prev_sequence: int | None

    @property
    def absent(self) -> bool:
        """Returns whether neither a producer nor any of its fields is given."""
        return (self.producer, self.epoch, self.name, self.prev_sequence) == (None, None, None, None)


def of_rows(
    rows: Rows, asked: SequenceColumn, with_ids: bool, token: bytes, call: int, sender: Sender
) -> SequenceRequest | None:
    """Reads the claim of sequences from the rows' own column; None if no producer is given.

    `with_ids`: the rows also have ids, which is refused. Raises BadRequest.
    """
    if asked.absent:
        return None
    producer, epoch, name = asked.producer, asked.epoch, asked.name
    if producer is None or epoch is None or name is None:
        raise BadRequest("producer, epoch and sequence_col go together")
    if with_ids:
        raise BadRequest("a row is known by id_col, or by producer and sequence_col, not by both")
    columns.check_present([name], rows.schema.names, "sequence_col")
    found = of_column(pa.Table.from_batches(rows.batches, rows.schema).column(name), name)
    if asked.prev_sequence is not None:
        of_numbers([asked.prev_sequence], "prev_sequence")
    return SequenceRequest(producer, epoch, token, call, found, asked.prev_sequence, sender=sender)


def of_column(column: pa.ChunkedArray, name: str) -> Sequences:
    """Reads uint64[n] from an integer column. Raises BadRequest for another type, a null or a negative one."""
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
    """Converts numbers to uint64[n]. Raises BadRequest above SEQUENCE_MAX; the caller refuses negative ones."""
    if max(numbers, default=0) > SEQUENCE_MAX:
        raise BadRequest(f"{what}: whole numbers from 0 to {SEQUENCE_MAX} are wanted, not {max(numbers)}")
    return np.array(numbers, np.uint64)
