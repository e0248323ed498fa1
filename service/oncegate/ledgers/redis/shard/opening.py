"""Opening a ledger on Redis, in the order that keeps two owners from both writing.

1. the head is read, and held against the witness: a server that was flushed or set back is not touched
2. the ledger is taken: a fence that no owner before has    --- who had it appends nothing from now on ---
3. every frame is read, and judged: links, collection, witness, key, and the head that the taking told
4. the entry of ownership is appended. Only then is anything answered
"""

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from oncegate.core.errors import KeyMismatch, LedgerDamaged, LedgerDown
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.chain import FIRST_CHAIN
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.frames import End, Owned
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.scripts import MAKE
from oncegate.ledgers.redis.shard.head import foreign, read_head
from oncegate.ledgers.redis.shard.place import RedisPlace
from oncegate.ledgers.redis.shard.reading import bytes_at, frames_from
from oncegate.ledgers.redis.shard.writer import FrameWriter
from oncegate.ledgers.redis.witnesses import Witness
from oncegate.ledgers.snapshot_pieces import decode_piece

HOLDER_BYTES = 16


@dataclass
class Opened:
    """Holds a ledger that is read, judged and owned. `reading`: a link to the server that `writer` writes to.

    `released`: where rows may still lie that nothing names any more.
    """

    key: bytes
    fence: int
    writer: FrameWriter
    reading: Link
    witness: Witness
    released: list[Location]


async def open_place(place: RedisPlace, witness: Witness) -> Opened:
    """Opens a ledger, and fences who had it before.

    Raises LedgerDamaged, KeyMismatch: nothing was written but perhaps a fence; LedgerFenced: another opens it too;
    LedgerFull, LedgerDown: not now, try again.
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
            head = await writer.own(head)
            reading = Link(place.address, server.run_id)
            on_error.push_async_callback(reading.close)
            try:
                await read_ledger(reading, place, writer.fold)
                judge(place, writer.fold, head.end, witness.seen)
                released = await settle(reading, place, writer.fold)
            except LedgerDamaged:
                # It may be the doing of who came later: then it is his to tell.
                await writer.require_unfollowed(reading)
                raise
            _require_key(place, writer.fold, key)
            await writer.write((), [Owned(head.fence, place.keys.wrap(key))])
            await witness.own(head.fence, writer.fold.end)
        except (Refused, Unreachable, Lost) as error:
            raise LedgerDown(f"{place.address.shown} cannot be used now: {error}") from error
        on_error.pop_all()
    return Opened(key, head.fence, writer, reading, witness, released)


async def make_place(link: Link, place: RedisPlace) -> None:
    """Makes the keys of a ledger that was never owned. LedgerDamaged: others are there; Refused, Unreachable, Lost."""
    keys = [place.head, place.frames, place.rows, place.states]
    if await link.run(MAKE, keys, place.listed.ledger, FIRST_CHAIN) != b"OK":
        raise foreign(place)


def require_witnessed(place: RedisPlace, end: End, seen: End | None) -> None:
    """Raises LedgerDamaged where a ledger ends before its witness."""
    if seen is not None and (seen.serial > end.serial or (seen.serial == end.serial and seen != end)):
        raise LedgerDamaged(
            f"key {place.head} ends at frame {end.serial} (position {end.position}), and its witness saw frame "
            f"{seen.serial} (position {seen.position}): the server was set back, or another one took its place without "
            "them, and acknowledged entries would be forgotten; nothing was changed, put back what the server held"
        )


async def read_ledger(link: Link, place: RedisPlace, fold: Fold) -> None:
    """Gives `fold` every frame that is there. LedgerDamaged, Refused, Unreachable, Lost."""
    async with aclosing(frames_from(link, place, fold.end.serial + 1)) as frames:
        async for frame in frames:
            fold.take(frame)


def judge(place: RedisPlace, fold: Fold, end: End, seen: End | None) -> None:
    """Raises LedgerDamaged unless the frames that were read are all that the head and the witness say."""
    fold.require_whole(seen, end.serial > 0)
    if fold.end != end:
        raise LedgerDamaged(
            f"key {place.frames} ends at frame {fold.end.serial}, and {place.head} says {end.serial}; nothing was "
            "changed, put back what the server held"
        )


async def settle(link: Link, place: RedisPlace, fold: Fold) -> list[Location]:
    """Makes the catalog of what the last collection saved, and what has changed since. Errors as `read_ledger`.

    Returns the locations whose rows nothing names any more since then.
    """
    locations = fold.collected.catalog if fold.collected else ()
    async with aclosing(saved_pieces(link, place, locations)) as saved:
        pieces = [piece async for several in saved for piece in several]
    try:
        return fold.settle(pieces)
    except ValueError as error:
        raise LedgerDamaged(f"key {place.states}: not of a format that this version reads ({error})") from error


async def saved_pieces(
    link: Link, place: RedisPlace, locations: tuple[Location, ...]
) -> AsyncGenerator[list[bytes], None]:
    """Yields what was saved at each location, in their order; to be closed with `aclose`. Errors as `read_ledger`."""
    async with aclosing(bytes_at(link, place.states, locations)) as several:
        async for data in several:
            try:
                yield decode_piece(data)
            except ValueError as error:
                raise LedgerDamaged(f"key {place.states}: not of a format that this version reads ({error})") from error


def _require_key(place: RedisPlace, fold: Fold, key: bytes) -> None:
    if fold.key and place.keys.unwrap(fold.key) != key:
        raise KeyMismatch(
            f"key {place.frames} was written with another key than the list of namespaces has, and every id would look "
            "new; nothing was changed, put back what belongs together"
        )
