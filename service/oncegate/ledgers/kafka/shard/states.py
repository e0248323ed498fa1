"""Writes the pieces of a snapshot into the topic .states, from the thread that has them."""

import asyncio
from collections.abc import Awaitable, Callable

from oncegate.ledgers.catalog import Location
from oncegate.ledgers.kafka.guard import Partition
from oncegate.ledgers.kafka.shard.blobs import Blobs, location
from oncegate.ledgers.snapshot_pieces import encode_piece


class TopicPieces:
    """Implements `snapshotting.PieceWriter`: each piece is a transaction, and an append waits for one at most.

    `write`: commits blobs and returns their offsets; called in the loop that this was made in. What is abandoned stays
    until the next collection: nothing names it.
    """

    def __init__(self, partition: Partition, write: Callable[[Blobs], Awaitable[list[int]]]) -> None:
        self._partition = partition
        self._write = write
        self._loop = asyncio.get_running_loop()

    def add(self, piece: list[bytes]) -> Location:
        """Implements `PieceWriter.add`; raises what `write` does."""
        data = encode_piece(piece)
        (offset,) = asyncio.run_coroutine_threadsafe(self._written(data), self._loop).result()
        return location(offset, data)

    async def _written(self, data: bytes) -> list[int]:
        return await self._write(Blobs(self._partition, [data]))

    def finish(self) -> None:
        """Implements `PieceWriter.finish`: all is durable already."""

    def abandon(self, removing: bool) -> None:
        """Implements `PieceWriter.abandon`: what was written stays until the next collection."""
