"""Streams rows into one transaction on Kafka, piece by piece, with whatever names them written last.

A piece is an Arrow IPC stream of some MiB, as `pieces` cuts them and `spool` keeps them. One is decoded and encoded at
a time, in a thread, while the batches before it are on their way.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oncegate.core.errors import TooLarge
from oncegate.ledgers.kafka.guard import Batch, Guard, Partition
from oncegate.ledgers.kafka.record_batch import RecordBatch, RecordTooLarge, check, encode
from oncegate.ledgers.kafka.rows.compression import Compression, compressed
from oncegate.ledgers.kafka.rows.contract import columns_of
from oncegate.ledgers.kafka.rows.marks import Origin, marks_of
from oncegate.ledgers.kafka.rows.pieces import rows_of
from oncegate.ledgers.kafka.rows.shares import Share, shares


@dataclass(frozen=True, slots=True)
class Target:
    """Says where rows go and how. `topic`: the option; `counts`: how many partitions each topic has.

    `now_ms`: the time of rows that bring none, since 1970. `turn`: of the first piece's rows without a key; each piece
    has the next one.
    """

    topic: str | None
    counts: Mapping[str, int]
    now_ms: int
    turn: int = 0
    compression: Compression = "none"


@dataclass(frozen=True, slots=True)
class Piece:
    """Holds rows as one Arrow IPC stream, and who wrote them where records shall say it."""

    data: bytes | memoryview
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """Says what one partition got. `first_offset`: of its first record, −1 where the broker did not tell it.

    Records of other producers may stand between these, so that the last one's offset does not follow from the number.
    """

    partition: Partition
    first_offset: int
    records: int


def check_rows(schema: Any, batches: Sequence[Any], target: Target) -> None:
    """Checks Arrow rows before any effect: whatever `commit_rows` would refuse of them later.

    Raises SchemaMismatch, BadRequest, NotFound as `contract` and `partitions` say; TooLarge: a row fits no batch.
    """
    _checked(shares(columns_of(schema, batches, target.topic, target.now_ms), target.counts, target.turn))


async def commit_rows(
    guard: Guard,
    pieces: Iterable[Piece],
    target: Target,
    then: Callable[[list[Written]], Sequence[Batch]] = lambda _: (),
) -> list[Written]:
    """Writes all pieces as one transaction of `guard`, and last what `then` makes of where they lie; returns where.

    `pieces` is read in a thread, one piece at a time. Raises NotWritten, Fenced, InDoubt and RuntimeError as
    `Guard.commit`; what `pieces` raises, as MissingStage, and what `check_rows` does: nothing of it is ever visible,
    and the guard is closed.
    """
    sent: list[tuple[Partition, int]] = []
    found: list[Written] = []

    async def batches() -> AsyncIterator[Batch]:
        async for batch in _batches(iter(pieces), target):
            sent.append((batch.partition, batch.encoded.record_count()))
            yield batch

    def last(offsets: list[int]) -> Sequence[Batch]:
        found.extend(_written(sent, offsets))
        return then(found)

    await guard.commit(batches(), last)
    return found


async def _batches(pieces: Iterator[Piece], target: Target) -> AsyncIterator[Batch]:
    turn = target.turn
    while (encoded := await asyncio.to_thread(_next_encoded, pieces, target, turn)) is not None:
        # Each is let go of as it is handed over.
        encoded.reverse()
        while encoded:
            yield encoded.pop()
        turn += 1


def _next_encoded(pieces: Iterator[Piece], target: Target, turn: int) -> list[Batch] | None:
    """The batches of the next piece; None behind the last."""
    piece = next(pieces, None)
    if piece is None:
        return None
    columns = columns_of(*rows_of(piece.data), target.topic, target.now_ms)
    marks = () if piece.origin is None else marks_of(piece.origin)
    found = _checked(shares(columns, target.counts, turn, marks))
    return [Batch(share.partition, batch) for share in found for batch in _encoded(share, target.compression)]


def _encoded(share: Share, compression: Compression) -> list[RecordBatch]:
    return compressed(encode(share.records), compression)


def _checked(found: list[Share]) -> list[Share]:
    for share in found:
        try:
            check(share.records)
        except RecordTooLarge as error:
            raise TooLarge(
                f"row {int(share.rows[error.row])} takes {error.size_bytes} bytes as a record, and a batch takes "
                f"{error.batch_bytes}; nothing was written"
            ) from error
    return found


def _written(sent: Sequence[tuple[Partition, int]], offsets: Sequence[int]) -> list[Written]:
    """What each partition got, in the order of their first batches."""
    firsts: dict[Partition, int] = {}
    records: dict[Partition, int] = {}
    for (partition, count), offset in zip(sent, offsets, strict=True):
        firsts.setdefault(partition, offset)
        records[partition] = records.get(partition, 0) + count
    return [Written(partition, first, records[partition]) for partition, first in firsts.items()]
