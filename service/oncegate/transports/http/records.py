"""Rows on their way out: the part of the fetched ranges that was asked for."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from oncegate.core.errors import LedgerBehind
from oncegate.engine.requests import Batch, Fetched, Schema
from oncegate.engine.shard import Shard
from oncegate.transports.http import messages


@dataclass(frozen=True)
class Window:
    """`batches`, all of `schema`, hold the rows from `first_offset` up to `next_offset`."""

    schema: Schema
    batches: list[Batch]
    first_offset: int
    next_offset: int
    high_offset: int


async def read(shard: Shard, topic: str, partition: int, offset: int, max_rows: int, bytes_max: int) -> Window:
    """At most `max_rows` rows from `offset` on, ending with the batch that reaches `bytes_max`.

    Asks for as much at a time as the rows so far make likely to fit, so that memory stays bounded whatever a row's
    size. Raises LedgerBehind when `offset` lies beyond the end: who asks has read rows that are not here any more.
    """
    batches: list[Batch] = []
    at, end, size_bytes, wanted = offset, offset + max_rows, 0, 1
    while True:
        fetched = await shard.fetch(topic, partition, at, wanted)
        if at > fetched.high_offset:
            raise LedgerBehind(
                f"offset {offset} was asked for and the topic ends at {fetched.high_offset}: a wrong offset, or this "
                "is an older copy of what was read before",
                high_offset=fetched.high_offset,
            )
        before = at
        for piece in _pieces(fetched, at, end):
            batches.append(piece)
            at, size_bytes = at + piece.num_rows, size_bytes + piece.nbytes
            if size_bytes >= bytes_max:
                break
        if at >= end or size_bytes >= bytes_max or at == before:
            return Window(fetched.schema, batches, offset, at, fetched.high_offset)
        wanted = max(1, min(end - at, (bytes_max - size_bytes) * (at - offset) // max(1, size_bytes)))


def _pieces(fetched: Fetched, at: int, end: int) -> Iterator[Batch]:
    """The rows from `at` up to `end` of what was fetched, a batch at a time, all of the topic's schema."""
    for chunk in fetched.chunks:
        first = chunk.first_offset
        with pa.ipc.open_stream(chunk.data) as reader:
            for batch in reader:
                piece = batch.slice(min(batch.num_rows, max(0, at - first)), max(0, end - max(at, first)))
                first += batch.num_rows
                if piece.num_rows:
                    yield pa.RecordBatch.from_arrays(piece.columns, schema=fetched.schema)


def as_arrow(found: Window) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as writer:
        for batch in found.batches:
            writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def as_json(found: Window) -> bytes:
    """Binary values become base64, decimals and durations their text."""
    rows = [row for batch in found.batches for row in batch.to_pylist()]
    reply = messages.RecordsReply(rows, found.first_offset, found.next_offset, found.high_offset)
    return msgspec.json.encode(reply, enc_hook=str)
