"""Opens a ledger on Redis, in an order that prevents two owners from both writing.

1. The head is compared with the rollback check. A server that was flushed or set back is not written to.
2. This gateway becomes the leader (`server.election`), if it may, and raises the fence.
                                             --- the earlier owner can append nothing from now on ---
3. Every frame is read. Chain, compaction, rollback check, key, and the head from step 2 are verified.
4. The entry of ownership is appended. No request is answered before.

A standby's replay state is used in step 3 only if the stream still has the first frame that is needed and the standby's
last frame, whose chain covers all earlier frames.
"""

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.chain import FIRST_CHAIN
from oncegate.ledgers.frames import End, Owned
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable, unusable
from oncegate.ledgers.redis.scripts import MAKE
from oncegate.ledgers.redis.shard.head import Head, RedisPlace, foreign, read_head
from oncegate.ledgers.redis.shard.reading import Fold, StreamReader, first_serial, frame_at
from oncegate.ledgers.redis.shard.writer import FrameWriter
from oncegate.ledgers.redis.witnesses import Witness
from oncegate.ledgers.server.replay import require_key, settle

HOLDER_BYTES = 16


@dataclass
class Opened:
    """A ledger that was read, verified and acquired. `reading`: a link to the same run of the server as `writer`'s."""

    key: bytes
    fence: int
    writer: FrameWriter
    reading: Link
    witness: Witness


async def open_place(
    place: RedisPlace, witness: Witness, lead: Callable[[], Awaitable[None]], warm: Fold | None = None
) -> Opened:
    """Opens a ledger, and fences its earlier owner. `lead`: as in `FrameWriter.own`.

    `warm`: a standby's replay state, which becomes the writer's `fold` if it still matches the stream.

    Raises:
        LedgerDamaged, KeyMismatch: nothing was written, except perhaps a fence.
        LedgerFenced: another gateway is opening it too.
        LedgerFull, LedgerDown: retry.
    """
    key = place.keys.unwrap(place.listed.key)
    async with AsyncExitStack() as on_error:
        writing = Link(place.address)
        on_error.push_async_callback(writing.close)
        try:
            server = await writing.connect()
            await witness.begin()
            head = await read_head(writing, place)
            require_witnessed(place, head.end, witness.seen)
            writer = FrameWriter(place, writing, os.urandom(HOLDER_BYTES))
            head = await writer.own(head, lead)
            reading = Link(place.address, server.run_id)
            on_error.push_async_callback(reading.close)
            try:
                writer.fold = await _read(reading, place, head, witness.seen, warm)
            except LedgerDamaged:
                # A newer owner may have changed the stream during the read: then raise LedgerFenced.
                await writer.require_unfollowed(reading)
                raise
            require_key(StreamReader(reading, place), place.keys, writer.fold, key)
            await writer.write((), [Owned(head.fence, place.keys.wrap(key))])
            await witness.own(head.fence, writer.fold.end)
        except (Refused, Unreachable, Lost) as error:
            raise unusable(place.address, error) from error
        on_error.pop_all()
    return Opened(key, head.fence, writer, reading, witness)


async def _read(link: Link, place: RedisPlace, head: Head, seen: End | None, warm: Fold | None) -> Fold:
    """Replays all frames, and verifies the result against the head and the rollback check.

    Raises LedgerDamaged, Refused, Unreachable, Lost.
    """
    if warm is not None:
        try:
            await _require_read(link, place, warm)
            return await _folded(link, place, head, seen, warm)
        except LedgerDamaged:
            pass  # replay the stream from its beginning instead
    return await _folded(link, place, head, seen, Fold(place.listed.ledger, place.frames))


async def _folded(link: Link, place: RedisPlace, head: Head, seen: End | None, fold: Fold) -> Fold:
    reader = StreamReader(link, place)
    async with aclosing(reader.frames(0, fold.end.serial + 1)) as frames:
        async for frame in frames:
            fold.take(frame)
    judge(place, fold, head.end, seen)
    await settle(reader, fold)
    return fold


async def _require_read(link: Link, place: RedisPlace, warm: Fold) -> None:
    """Raises LedgerDamaged if the stream does not match a standby's replay state;
    may raise Refused, Unreachable, Lost.
    """
    first, last = await first_serial(link, place), await frame_at(link, place, warm.end.serial)
    if first is None or first > max(warm.ledger_from, 1) or last is None or last.end != warm.end:
        raise LedgerDamaged(f"key {place.frames} is not what was followed")


async def make_place(link: Link, place: RedisPlace) -> None:
    """Creates the keys of a new ledger. Raises LedgerDamaged: another ledger's exist; Refused, Unreachable, Lost."""
    keys = [place.head, place.frames, place.rows, place.states]
    if await link.run(MAKE, keys, place.listed.ledger, FIRST_CHAIN) != b"OK":
        raise foreign(place)


def require_witnessed(place: RedisPlace, end: End, seen: End | None) -> None:
    """Raises LedgerDamaged if the ledger ends before `seen`, or has a different frame at that end."""
    if seen is not None and (seen.serial > end.serial or (seen.serial == end.serial and seen != end)):
        raise LedgerDamaged(
            f"key {place.head} ends at frame {end.serial} (position {end.position}), and its witness saw frame "
            f"{seen.serial} (position {seen.position}): the server was set back, or another one took its place without "
            "them, and acknowledged entries would be forgotten; nothing was changed, put back what the server held"
        )


def judge(place: RedisPlace, fold: Fold, end: End, seen: End | None) -> None:
    """Raises LedgerDamaged unless the replayed frames reach the rollback check and end where the head ends."""
    fold.require_whole(seen, end.serial > 0)
    if fold.end != end:
        raise LedgerDamaged(
            f"key {place.frames} ends at frame {fold.end.serial}, and {place.head} says {end.serial}; nothing was "
            "changed, put back what the server held"
        )
