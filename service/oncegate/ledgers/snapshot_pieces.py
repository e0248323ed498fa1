"""Cuts a snapshot into pieces that are written at once: each a msgpack array of entries, or of parts of the catalog."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

import msgspec

from oncegate.core.errors import LedgerDown

# Written and synced, read and verified at once; an entry larger than this has a piece to itself.
PIECE_BYTES = 2 << 20

encode_piece = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[bytes])


def decode_piece(data: bytes | memoryview) -> list[bytes]:
    """Returns the entries of a piece; ValueError when the bytes are none."""
    return _decoder.decode(data)


async def until(closing: asyncio.Event, snapshot: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yields a snapshot's entries; LedgerDown once the ledger is to be closed, for the rest may never come."""
    closed, entries = asyncio.ensure_future(closing.wait()), aiter(snapshot)
    try:
        while True:
            following = asyncio.ensure_future(_next(entries))
            await asyncio.wait((following, closed), return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                await asyncio.wait((following,))
                raise LedgerDown("the ledger is being closed; it was not compacted")
            if (entry := following.result()) is None:
                return
            yield entry
    finally:
        closed.cancel()


async def _next(entries: AsyncIterator[bytes]) -> bytes | None:
    return await anext(entries, None)


async def pieces_of(snapshot: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    """Yields a snapshot's entries in order, so many at a time as are written at once."""
    piece = _Piece()
    async for entry in snapshot:
        if full := piece.add(entry):
            yield full
    if piece.entries:
        yield piece.entries


def several(entries: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yields the same of entries that need not be waited for."""
    piece = _Piece()
    for entry in entries:
        if full := piece.add(entry):
            yield full
    if piece.entries:
        yield piece.entries


class _Piece:
    """Collects what is written at once."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self._size_bytes = 0

    def add(self, entry: bytes) -> list[bytes]:
        """Adds one; returns those before it where they are enough without it, else none."""
        full: list[bytes] = []
        if self.entries and self._size_bytes + len(entry) > PIECE_BYTES:
            full, self.entries, self._size_bytes = self.entries, [], 0
        self.entries.append(entry)
        self._size_bytes += len(entry)
        return full
