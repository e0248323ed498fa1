"""Writes rows into users' topics with a guard alone, as a ledger does beside its frames."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.rows import stream
from oncegate.ledgers.kafka.rows.stream import Piece, RowStream, Target
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ports import RowPlaces


class Written(NamedTuple):
    """The records written to one partition; `first_offset` is that of the first record."""

    partition: Partition
    first_offset: int
    records: int


def written(places: RowPlaces) -> list[Written]:
    """Returns the records of each partition, in the order of their first batches."""
    grouped = groupby(places.ranges, lambda one: Partition(one.topic, one.partition))
    found = [(partition, list(ranges)) for partition, ranges in grouped]
    return [Written(at, of[0].first_offset, sum(one.rows for one in of)) for at, of in found]


async def commit_rows(
    guard: Guard,
    pieces: Iterable[Piece],
    target: Target,
    then: Callable[[list[Written]], Sequence[Batch]] = lambda _: (),
) -> list[Written]:
    """Writes all pieces, then the batches that `then` builds from their offsets, in one transaction. Returns the
    offsets."""
    stream, found = RowStream(in_threads(pieces), target), list[Written]()

    def last(offsets: list[int]) -> Sequence[Batch]:
        found.extend(written(stream.written(offsets)))
        return then(found)

    await guard.commit(stream.batches(), last)
    return found


async def in_threads(pieces: Iterable[Piece]) -> AsyncIterator[Piece]:
    """Fetches each piece in a thread."""
    iterator = iter(pieces)
    while (piece := await asyncio.to_thread(next, iterator, None)) is not None:
        yield piece


def check_rows(table: Any, target: Target) -> None:
    """Checks rows before any effect, as a gateway does."""
    schema = table.schema
    stream.check_rows(schema, table.to_batches(), stream.option_of(target.topic, schema), target.counts)


def pieces_of(table: Any, piece_bytes: int = 1 << 20) -> Iterator[Piece]:
    """Cuts rows into Arrow IPC streams of about `piece_bytes` each."""
    rows = max(1, table.num_rows * piece_bytes // max(table.nbytes, 1))
    for batch in table.combine_chunks().to_batches(max_chunksize=rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_batch(batch)
        yield memoryview(sink.getvalue())
