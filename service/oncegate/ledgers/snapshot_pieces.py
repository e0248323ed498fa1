"""Cuts a snapshot into pieces, which are written one at a time: msgpack arrays of entries or of catalog parts."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator

import msgspec

from oncegate.core.errors import LedgerDown

# Size of a piece, the unit of writing, syncing, reading and verifying; a larger entry is a piece of its own.
PIECE_BYTES = 2 << 20

encode_piece = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[bytes])


def decode_piece(data: bytes | memoryview) -> list[bytes]:
    """Decodes a piece. Raises ValueError for other data."""
    return _decoder.decode(data)


async def until(closing: asyncio.Event, snapshot: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yields a snapshot's entries. Raises LedgerDown once `closing` is set, without waiting for the next entry."""
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
    """Groups a snapshot's entries, in order, into pieces."""
    piece = _Piece()
    async for entry in snapshot:
        if full := piece.add(entry):
            yield full
    if piece.entries:
        yield piece.entries


def several(entries: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Groups entries into pieces, like `pieces_of`, from a synchronous iterable."""
    piece = _Piece()
    for entry in entries:
        if full := piece.add(entry):
            yield full
    if piece.entries:
        yield piece.entries


class _Piece:
    """The piece being filled."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self._size_bytes = 0

    def add(self, entry: bytes) -> list[bytes]:
        """Adds an entry; if the piece would become too large, starts a new one and returns the full one's entries,
        otherwise an empty list.
        """
        full: list[bytes] = []
        if self.entries and self._size_bytes + len(entry) > PIECE_BYTES:
            full, self.entries, self._size_bytes = self.entries, [], 0
        self.entries.append(entry)
        self._size_bytes += len(entry)
        return full
