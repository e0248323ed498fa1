"""Replays a ledger on a server: its frames, with the snapshot for compacted ones, and its rows.

A `LedgerReader` reads frames and blobs from the server, and maps the server's errors.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from typing import Generic, Protocol, TypeVar

from oncegate.core.errors import KeyMismatch, LedgerDamaged
from oncegate.ledgers.catalog import Catalog, Location
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.frames import Compacted, Frame, entries_of
from oncegate.ledgers.keys import Keys
from oncegate.ledgers.snapshot_pieces import decode_piece, encode_piece
from oncegate.ports import Chunk, Replayed

Batch = Sequence[Replayed]
Bytes = bytes | memoryview
# The arguments of `Outputs.fetch`: topic, partition, first offset, maximum rows, maximum bytes.
Fetch = tuple[str, int, int, int, int]


class LedgerReader(Protocol):
    """Reader of one ledger. `frames` and `pieces` raise the server's own errors, and LedgerDamaged."""

    @property
    def where(self) -> str:
        """Returns the topic or key of the ledger's frames, preceded by the word "topic" or "key"."""

    @property
    def states(self) -> str:
        """Returns the topic or key of the ledger's snapshots, in the form of `where`."""

    @property
    def mend(self) -> str:
        """Returns the remedy for missing records, for messages."""

    def reading(self) -> AbstractContextManager[None]:
        """Converts the server's errors: LedgerDamaged for deleted records, LedgerDown for an unavailable server."""

    def frames(self, offset: int, serial: int) -> AsyncGenerator[Frame, None]:
        """Yields the frames from the one with this serial, which is at `offset`. Close it with `aclose`."""

    def pieces(self, locations: Sequence[Location]) -> AsyncGenerator[Bytes, None]:
        """Yields the snapshot's piece at each location, in order. Close it with `aclose`."""


class Pieces:
    """A `snapshotting.PieceWriter` to a server; an append waits at most for one piece.

    `write`: writes a piece and returns its location; called in the event loop that created this object. Abandoned
    pieces are not referenced, and stay until the next compaction.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[Location]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()

    def add(self, piece: list[bytes]) -> Location:
        return asyncio.run_coroutine_threadsafe(self._written(encode_piece(piece)), self._loop).result()

    async def _written(self, data: bytes) -> Location:
        return await self._write(data)

    def finish(self) -> None:
        """Does nothing: each piece is durable once it is written."""

    def abandon(self, removing: bool) -> None:
        """Does nothing: written pieces stay until the next compaction."""


async def saved_pieces(reader: LedgerReader, locations: Sequence[Location]) -> AsyncGenerator[list[bytes], None]:
    """Yields the decoded piece at each location, in order. Close it with `aclose`. Raises as the reader."""
    async with aclosing(reader.pieces(locations)) as pieces:
        async for data in pieces:
            try:
                yield decode_piece(data)
            except ValueError as error:
                raise _unreadable(reader, error) from error


async def settle(reader: LedgerReader, fold: Fold) -> None:
    """Builds the catalog from the last compaction and the changes since. Raises as the reader."""
    if fold.settled:
        fold.catch_up()
        return
    locations = fold.compacted.catalog if fold.compacted else ()
    async with aclosing(saved_pieces(reader, locations)) as saved:
        pieces = [piece async for several in saved for piece in several]
    try:
        fold.settle(pieces)
    except ValueError as error:
        raise _unreadable(reader, error) from error


def _unreadable(reader: LedgerReader, error: ValueError) -> LedgerDamaged:
    return LedgerDamaged(f"{reader.states}: not of a format that this version reads ({error})")


def require_key(reader: LedgerReader, keys: Keys, fold: Fold, key: bytes) -> None:
    """Raises KeyMismatch unless the ledger was written with this key."""
    if fold.key and keys.unwrap(fold.key) != key:
        raise KeyMismatch(
            f"{reader.where} was written with another key than the list of namespaces has, and every id would look "
            "new; nothing was changed, put back what belongs together"
        )


async def replayed(reader: LedgerReader, fold: Fold, from_position: int) -> AsyncGenerator[Batch, None]:
    """Yields the entries at or after a position, some megabytes at a time; entries appended later are not included.

    Raises LedgerDamaged, after yielding the entries before the damage; LedgerDown: the server is unavailable.
    """
    compacted, end = fold.compacted, fold.end
    behind = max(from_position - 1, compacted.position if compacted else 0)
    first = fold.first_after(behind)
    with reader.reading():
        if compacted is not None and from_position <= compacted.position:
            async with aclosing(_snapshot(reader, compacted)) as batches:
                async for batch in batches:
                    yield batch
        if first is not None:
            async with aclosing(frames_up_to(reader, *first, end.serial)) as frames:
                async for frame in frames:
                    if entries := entries_of(frame, behind):
                        yield entries


async def _snapshot(reader: LedgerReader, compacted: Compacted) -> AsyncGenerator[Batch, None]:
    async with aclosing(saved_pieces(reader, compacted.state)) as pieces:
        async for bodies in pieces:
            if bodies:
                yield [Replayed(compacted.position, body, compacted.mark) for body in bodies]


async def frames_up_to(reader: LedgerReader, offset: int, serial: int, last: int) -> AsyncGenerator[Frame, None]:
    """Yields the frames from `serial`, which is at `offset`, to `last`. Raises LedgerDamaged: one is missing."""
    async with aclosing(reader.frames(offset, serial)) as frames:
        async for frame in frames:
            if frame.serial != serial:
                break
            yield frame
            serial += 1
            if serial > last:
                return
    raise LedgerDamaged(f"{reader.where} lacks frame {serial}; {reader.mend}")


async def rows_of(
    catalog: Catalog, fetch: Fetch, read: Callable[[Sequence[Location]], Awaitable[Sequence[Bytes]]]
) -> list[Chunk]:
    """Returns published rows as `Outputs.fetch` does, located by `catalog`. `read`: returns the bytes at locations.

    Raises OffsetTrimmed, LedgerDamaged, and the errors of `read`.
    """
    ranges = catalog.find(*fetch)
    try:
        data = await read([one.location for one in ranges])
    except LedgerDamaged:
        catalog.find(*fetch)  # raises OffsetTrimmed if the rows were trimmed meanwhile
        raise
    return [Chunk(one.first_offset, one.rows, rows) for one, rows in zip(ranges, data, strict=True)]


F = TypeVar("F", bound=Fold)


class FollowedReader(ABC, Generic[F]):
    """Implements `following.FollowedShard` by applying frames to `fold`; a subclass reads the new frames."""

    def __init__(self, reader: LedgerReader, fold: F) -> None:
        self._reading = reader
        self._fold = fold
        # Offset of the next frame.
        self._read_to = 0

    async def more(self) -> AsyncGenerator[Batch, None]:
        async with aclosing(self._new_frames()) as frames:
            async for frame in frames:
                self.take(frame)
                if entries := entries_of(frame):
                    yield entries

    def take(self, frame: Frame) -> None:
        """Applies the next frame to the replay state, and to the catalog once it is built."""
        self._fold.take(frame)
        if self._fold.settled:
            self._fold.catch_up()

    async def replayed(self) -> AsyncGenerator[Batch, None]:
        await settle(self._reading, self._fold)
        async with aclosing(replayed(self._reading, self._fold, 1)) as batches:
            async for batch in batches:
                yield batch

    async def last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        async with aclosing(frames_up_to(self._reading, self._read_to, serial, last_serial)) as frames:
            async for frame in frames:
                if entries := entries_of(frame):
                    yield entries

    @abstractmethod
    def _new_frames(self) -> AsyncGenerator[Frame, None]:
        """Yields the frames appended since the last call; at the first call, all."""
