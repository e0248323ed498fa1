"""Writes the pieces of a snapshot into the topic .states, from the thread that has them, and reads them back."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog.changes import Location
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.shard.blobs import Blobs, location
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import Readback
from oncegate.ledgers.snapshot_pieces import decode_piece, encode_piece


class TopicPieces:
    """Implements `snapshotting.PieceWriter`: each piece is a transaction, and an append waits for one at most.

    `write`: commits blobs and returns their offsets; called in the loop that this was made in. What is abandoned stays
    until the next compaction: nothing names it.
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
        """Implements `PieceWriter.abandon`: what was written stays until the next compaction."""


async def saved_pieces(place: KafkaPlace, locations: Sequence[Location]) -> AsyncGenerator[list[bytes], None]:
    """Yields what was saved at each location, in their order; to be closed with `aclose`.

    Raises LedgerDamaged: it is not what was written; LedgerDown: not reached.
    """
    states = Readback(place.settings, place.states)
    try:
        async with aclosing(states.blobs(locations)) as several:
            async for data in several:
                yield _decoded(place, bytes(data))
    finally:
        await states.close()


def _decoded(place: KafkaPlace, data: bytes) -> list[bytes]:
    try:
        return decode_piece(data)
    except ValueError as error:
        raise LedgerDamaged(f"{place.states.topic}: not of a format that this version reads ({error})") from error
