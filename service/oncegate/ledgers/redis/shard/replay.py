"""Reads a ledger's entries back: the snapshot in place of compacted ones, then the frames behind it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.frames import Compacted, Frame, entries_of
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.shard.opening import saved_pieces
from oncegate.ledgers.redis.shard.place import RedisPlace
from oncegate.ledgers.redis.shard.reading import frames_from
from oncegate.ports import Replayed

Batch = Sequence[Replayed]


async def replayed(link: Link, place: RedisPlace, fold: Fold, from_position: int) -> AsyncGenerator[Batch, None]:
    """Yields the entries from a position on, as of this call, some megabytes at a time.

    Raises LedgerDamaged, behind the entries before the damage; LedgerDown: not reached.
    """
    compacted, end = fold.compacted, fold.end
    behind = max(from_position - 1, compacted.position if compacted else 0)
    first = fold.first_after(behind)
    try:
        if compacted is not None and from_position <= compacted.position:
            async with aclosing(_snapshot(link, place, compacted)) as batches:
                async for batch in batches:
                    yield batch
        if first is not None:
            async with aclosing(frames_up_to(link, place, first[1], end.serial)) as frames:
                async for frame in frames:
                    if entries := entries_of(frame, behind):
                        yield entries
    except (Refused, Unreachable, Lost) as error:
        raise LedgerDown(f"key {place.frames} cannot be read now: {error}") from error


async def _snapshot(link: Link, place: RedisPlace, compacted: Compacted) -> AsyncGenerator[Batch, None]:
    async with aclosing(saved_pieces(link, place, compacted.state)) as pieces:
        async for bodies in pieces:
            if found := [Replayed(compacted.position, body, compacted.mark) for body in bodies]:
                yield found


async def frames_up_to(link: Link, place: RedisPlace, serial: int, last: int) -> AsyncGenerator[Frame, None]:
    """Yields the frames from one serial to another; LedgerDamaged: one is missing. Refused, Unreachable, Lost."""
    async with aclosing(frames_from(link, place, serial)) as frames:
        async for frame in frames:
            if frame.serial != serial:
                break
            yield frame
            serial += 1
            if serial > last:
                return
    raise LedgerDamaged(f"key {place.frames} lacks frame {serial}; put back what the server held")
