"""Reads rows back: the part of the fetched ranges that was asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oncegate.core.errors import BadRequest, LedgerBehind, NotAcceptable
from oncegate.engine.requests import Batch, Fetched, Schema
from oncegate.engine.shard import Shard
from oncegate.engine.usecases.partitioning import stream


@dataclass(frozen=True)
class Window:
    """Rows of one partition. `batches`, all of `schema`, hold those from `first_offset` up to `next_offset`."""

    schema: Schema
    batches: list[Batch]
    first_offset: int
    next_offset: int
    high_offset: int


async def read(
    shard: Shard, topic: str, partition: int, offset: int, max_rows: int, bytes_max: int, columns: Sequence[str] = ()
) -> Window:
    """Reads at most `max_rows` rows from `offset` on, ending with the batch that reaches `bytes_max`.

    `columns`: only these, in their order; none: all.

    Raises LedgerBehind when `offset` lies beyond the end: who asks has read rows that are not here any more;
    BadRequest for a column that the topic does not have.
    """
    batches: list[Batch] = []
    at, end, size_bytes = offset, offset + max_rows, 0
    while True:
        fetched = await shard.fetch(topic, partition, at, end - at, bytes_max - size_bytes)
        if at > fetched.high_offset:
            raise LedgerBehind(
                f"offset {offset} was asked for and the partition ends at {fetched.high_offset}: a wrong offset, or "
                "this is an older copy of what was read before",
                high_offset=fetched.high_offset,
            )
        schema, before = _pruned(fetched.schema, columns), at
        for piece in _pieces(fetched, at, end):
            batches.append(pa.RecordBatch.from_arrays([piece.column(name) for name in schema.names], schema=schema))
            at, size_bytes = at + piece.num_rows, size_bytes + piece.nbytes
            if size_bytes >= bytes_max:
                break
        if at >= end or size_bytes >= bytes_max or at == before:
            return Window(schema, batches, offset, at, fetched.high_offset)


def _pruned(schema: Schema | None, columns: Sequence[str]) -> Schema:
    """The topic's schema, cut to these columns in their order; without columns where nothing was written yet."""
    known = pa.schema([]) if schema is None else schema
    for name in columns:
        if name not in known.names:
            raise BadRequest(f"columns names {name!r}, and the topic has {', '.join(known.names) or 'none yet'}")
    return pa.schema([known.field(name) for name in columns]) if columns else known


def _pieces(fetched: Fetched, at: int, end: int) -> Iterator[Batch]:
    """The rows from `at` up to `end` of what was fetched, a batch at a time."""
    for chunk in fetched.chunks:
        first = chunk.first_offset
        with pa.ipc.open_stream(chunk.data) as reader:
            for batch in reader:
                piece = batch.slice(min(batch.num_rows, max(0, at - first)), max(0, end - max(at, first)))
                first += batch.num_rows
                if piece.num_rows:
                    yield piece


def as_arrow(found: Window) -> bytes:
    """Writes the rows as one Arrow IPC stream."""
    return stream(found.schema, found.batches)


def as_dicts(found: Window) -> list[dict[str, Any]]:
    """Writes the rows as Python values, a dict each. Raises NotAcceptable for times beyond the year 9999."""
    try:
        return [row for batch in found.batches for row in batch.to_pylist()]
    except (OverflowError, ValueError) as error:
        raise NotAcceptable(f"a value of these rows has no JSON ({error}); read them as Arrow") from error
