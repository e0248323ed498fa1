"""Encodes rows into the batches of a transaction, piece by piece, and afterwards returns their offsets.

A piece is the Arrow IPC stream of one request. A thread decodes and encodes one piece at a time, while earlier batches
are in flight: a transaction's rows are never all in memory.

Staged rows are also cached in memory, up to a bound, until their batch is committed. The commit of a typical batch then
reads nothing back, which would cost as much as encoding the rows.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from oncegate.arraytypes import I64
from oncegate.core.errors import TooLarge
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.kafka.compression import Compression, compressed
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import RecordBatch, RecordTooLarge, check, encode
from oncegate.ledgers.kafka.rows.contract import columns_of, topics_in
from oncegate.ledgers.kafka.rows.marks import check_names, marks_of
from oncegate.ledgers.kafka.rows.partitions import Share, check_partitions, records_of, shares
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ports import Origin, RowPlaces, RowRange, partition_numbers

# Rows as one Arrow IPC stream.
Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Target:
    """Destination and encoding of rows.

    `topic`: for rows without the column `topic`; None: all have it. `counts`: partitions of each topic.
    `now_ms`: timestamp of rows without one, since 1970. `turn`: round-robin position of the first piece's rows without
    a key; each piece uses the next. `origin`: the producer of all pieces, if the records get headers; else None.
    """

    topic: str | None
    counts: Mapping[str, int]
    now_ms: int
    turn: int = 0
    compression: Compression = "none"
    origin: Origin | None = None


Ask = Callable[[Collection[str]], Awaitable[None]]


async def _known(_topics: Collection[str]) -> None:
    """Does nothing: all topics are known already."""


class RowStream:
    """A single-use encoder of pieces into batches.

    `ask`: adds the topics of a piece to `target.counts`, or raises why they cannot be written. `by_row`: records the
    partition of each row.
    """

    def __init__(
        self, pieces: AsyncIterable[Piece], target: Target, ask: Ask = _known, *, by_row: bool = False
    ) -> None:
        self._pieces = pieces
        self._target = target
        self._ask = ask
        self._by_row = by_row
        self._sent: list[tuple[Partition, int]] = []
        self._rows: list[tuple[I64, Partition]] = []

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields the batches of each piece; encodes a piece once all earlier batches are consumed.

        Raises the errors of `pieces` and `ask`; SchemaMismatch, BadRequest, NotFound, TooLarge: a row cannot become a
        record of its topic.
        """
        turn, rows = self._target.turn, 0
        async for piece in self._pieces:
            await self._ask(await self._topics(piece))
            encoded, shared, taken = await asyncio.to_thread(_encoded, piece, self._target, turn, rows)
            self._rows += shared if self._by_row else []
            # `pop` frees each batch as it is consumed.
            encoded.reverse()
            while encoded:
                batch = encoded.pop()
                self._sent.append((batch.partition, batch.encoded.record_count()))
                yield batch
            turn, rows = turn + 1, rows + taken

    async def _topics(self, piece: Piece) -> list[str]:
        """Returns the topics of a piece; reads its rows only if it has a column `topic`."""
        option = option_of(self._target.topic, pa.ipc.read_schema(pa.py_buffer(piece)))
        return [option] if option is not None else await asyncio.to_thread(lambda: topics_in(*_read(piece)))

    @property
    def partitions(self) -> list[Partition]:
        return [partition for partition, _ in self._sent]

    def written(self, offsets: Sequence[int]) -> RowPlaces:
        """Returns the offsets of the rows; partitions are in the order of their first batches.

        `offsets`: the first offset of each batch, −1 if the broker did not return it. Batches may be separated by
        records of other producers.
        """
        ranges: dict[Partition, list[RowRange]] = {}
        for (partition, count), offset in zip(self._sent, offsets, strict=True):
            of_partition = ranges.setdefault(partition, [])
            last = of_partition[-1] if of_partition else None
            if last is not None and offset == last.first_offset + last.rows and last.first_offset >= 0:
                of_partition[-1] = last._replace(rows=last.rows + count)
            else:
                of_partition.append(RowRange(*partition, offset, count))
        numbers = {partition: number for number, partition in enumerate(ranges)}
        partition_of = partition_numbers([(rows, numbers[partition]) for rows, partition in self._rows])
        return RowPlaces(tuple(one for several in ranges.values() for one in several), partition_of)


def check_rows(
    schema: Any, batches: Sequence[Any], topic: str | None, counts: Mapping[str, int], origin: Origin | None = None
) -> None:
    """Validates Arrow rows before anything is written: raises whatever a `RowStream` would raise for them.

    `topic`: the option. `counts`, `origin`: as in `Target`.

    Raises SchemaMismatch, BadRequest as `columns_of`; BadRequest, NotFound as `check_partitions`; BadRequest: a row has
    a header with the gateway's prefix; TooLarge: a row does not fit in a batch.
    """
    columns = columns_of(schema, batches, topic, now_ms=0)
    if origin is not None:
        check_names(columns.row_headers)
    check_partitions(columns, counts)
    try:
        check(records_of(columns, slice(None), marks_of(origin, 0, len(columns.times_ms))))
    except RecordTooLarge as error:
        raise _too_large(error, error.row) from error


def option_of(topic: str | None, schema: Any) -> str | None:
    """Returns the topic of all rows, or None if the rows have a column `topic`."""
    return None if "topic" in schema.names else topic


def _read(piece: Piece) -> tuple[Any, list[Any]]:
    with pa.ipc.open_stream(pa.py_buffer(piece)) as reader:
        return reader.schema, list(reader)


def _encoded(
    piece: Piece, target: Target, turn: int, rows_before: int
) -> tuple[list[Batch], list[tuple[I64, Partition]], int]:
    """Encodes a piece; returns its batches, the row indices of each partition, and the number of rows.

    `rows_before`: rows of earlier pieces, which the indices include.
    """
    schema, batches = _read(piece)
    columns = columns_of(schema, batches, option_of(target.topic, schema), target.now_ms)
    rows = len(columns.times_ms)
    found = shares(columns, target.counts, turn, marks_of(target.origin, rows_before, rows))
    encoded = [Batch(share.partition, batch) for share in found for batch in _batches(share, target.compression)]
    return encoded, [(np.asarray(share.rows + rows_before, np.int64), share.partition) for share in found], rows


def _batches(share: Share, compression: Compression) -> list[RecordBatch]:
    try:
        return compressed(encode(share.records), compression)
    except RecordTooLarge as error:
        raise _too_large(error, int(share.rows[error.row])) from error


def _too_large(error: RecordTooLarge, row: int) -> TooLarge:
    return TooLarge(
        f"row {row} takes {error.size_bytes} bytes as a record, and a batch takes {error.batch_bytes}; "
        "nothing was written"
    )


@dataclass
class StageCache:
    """Cache of the newest blobs of all ledgers of a process, up to `bytes_max`; evicts the oldest first.

    Only blobs written by an append may be put in: the bytes at a location never change. Missing blobs are read from the
    topic.
    """

    bytes_max: int = 0
    held_bytes: int = field(default=0, init=False)
    _blobs: dict[tuple[str, Location], Piece] = field(default_factory=dict, init=False)

    def put(self, ledger: str, at: Location, data: Piece) -> None:
        """Caches a blob of a ledger, unless it exceeds `bytes_max`."""
        if len(data) > self.bytes_max or not data:
            return
        self._drop((ledger, at))
        self._blobs[ledger, at] = data
        self.held_bytes += len(data)
        while self.held_bytes > self.bytes_max:
            self._drop(next(iter(self._blobs)))

    def get(self, ledger: str, at: Location) -> Piece | None:
        """Returns the blob at a location, or None if it is not cached."""
        return self._blobs.get((ledger, at))

    def drop(self, ledger: str, locations: Iterable[Location]) -> None:
        """Removes blobs that will not be read again."""
        for at in locations:
            self._drop((ledger, at))

    def drop_all(self, ledger: str) -> None:
        for key in [key for key in self._blobs if key[0] == ledger]:
            self._drop(key)

    def _drop(self, key: tuple[str, Location]) -> None:
        data = self._blobs.pop(key, None)
        self.held_bytes -= len(data) if data is not None else 0
