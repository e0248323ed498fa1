"""Writes the pieces of a snapshot into the stream of states, from the thread that has them."""

import asyncio
from collections.abc import Awaitable, Callable

from oncegate.ledgers.catalog.changes import Location
from oncegate.ledgers.redis.shard.reading import location
from oncegate.ledgers.snapshot_pieces import encode_piece


class StreamPieces:
    """Implements `snapshotting.PieceWriter`: an append waits for one piece at most.

    `write`: writes a piece and returns its id; called in the loop that this was made in. What is abandoned stays until
    the next compaction: nothing names it.
    """

    def __init__(self, write: Callable[[bytes], Awaitable[str]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()

    def add(self, piece: list[bytes]) -> Location:
        """Implements `PieceWriter.add`; raises what `write` does."""
        data = encode_piece(piece)
        return location(asyncio.run_coroutine_threadsafe(self._written(data), self._loop).result(), data)

    async def _written(self, data: bytes) -> str:
        return await self._write(data)

    def finish(self) -> None:
        """Implements `PieceWriter.finish`: all is as durable already as it gets."""

    def abandon(self, removing: bool) -> None:
        """Implements `PieceWriter.abandon`: what was written stays until the next compaction."""
