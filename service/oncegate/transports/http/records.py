"""Rows on their way out: the part of the fetched ranges that was asked for."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from oncegate.core.errors import LedgerBehind
from oncegate.engine.requests import Batch, Fetched, Schema
from oncegate.transports.http import messages


@dataclass(frozen=True)
class Window:
    """`batches` hold the rows from `first_offset` up to `next_offset`, all of `schema`."""

    schema: Schema
    batches: list[Batch]
    first_offset: int
    next_offset: int


def window(fetched: Fetched, offset: int, max_rows: int, bytes_max: int) -> Window:
    """At most `max_rows` rows from `offset` on, stopping after the batch that reaches `bytes_max`.

    Raises LedgerBehind when `offset` lies beyond the end: who asks has read rows that are not here any more.
    """
    if offset > fetched.high_offset:
        raise LedgerBehind(
            f"offset {offset} was asked for and the topic ends at {fetched.high_offset}: a wrong offset, or this is "
            "an older copy of what was read before",
            high_offset=fetched.high_offset,
        )
    batches: list[Batch] = []
    at, end, size_bytes = offset, offset + max_rows, 0
    for first, batch in _placed(fetched):
        if at >= end or size_bytes >= bytes_max:
            break
        piece = batch.slice(max(0, at - first), end - max(at, first))
        if piece.num_rows:
            batches.append(pa.RecordBatch.from_arrays(piece.columns, schema=fetched.schema))
            at, size_bytes = at + piece.num_rows, size_bytes + piece.nbytes
    return Window(fetched.schema, batches, offset, at)


def _placed(fetched: Fetched) -> Any:
    """Every fetched batch with the offset of its first row."""
    for chunk in fetched.chunks:
        first = chunk.first_offset
        with pa.ipc.open_stream(chunk.data) as reader:
            for batch in reader:
                yield first, batch
                first += batch.num_rows


def as_arrow(found: Window) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        for batch in found.batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def as_json(found: Window, high_offset: int) -> bytes:
    """Binary values become base64, decimals and durations their text."""
    rows = [row for batch in found.batches for row in batch.to_pylist()]
    reply = messages.RecordsReply(rows, found.first_offset, found.next_offset, high_offset)
    return msgspec.json.encode(reply, enc_hook=str)
