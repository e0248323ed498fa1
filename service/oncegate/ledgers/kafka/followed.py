"""Reads a shard's topics while another gateway owns them: up to where no transaction is open.

So an owner that died in one holds nobody up.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from aiokafka.errors import KafkaError

from oncegate.ledgers.frames import entries_of
from oncegate.ledgers.kafka.reading import Reader, Trimmed, reader
from oncegate.ledgers.kafka.shard.assembly import frames_of
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.opening import settle
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import OutputReadback
from oncegate.ledgers.kafka.shard.replay import frames_up_to, replayed
from oncegate.ports import Chunk, Replayed

Batch = Sequence[Replayed]
UNREADABLE: tuple[type[Exception], ...] = (Trimmed, KafkaError, OSError)


class FollowedTopics:
    """Implements `following.FollowedShard` over topics, and gives their frames to `fold`. Use `close` last."""

    def __init__(self, place: KafkaPlace, fold: Fold) -> None:
        self._place = place
        self._fold = fold
        self._read_to = 0
        self._outputs = OutputReadback(place)
        self._closing = AsyncExitStack()
        self._reader: Reader | None = None

    async def close(self) -> None:
        """Implements the protocol's `FollowedShard.close`."""
        self._reader = None
        await self._closing.aclose()
        await self._outputs.close()

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`, as far as was read."""
        return await self._outputs.rows(self._fold.catalog, topic, partition, offset, max_rows, max_bytes)

    async def more(self) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.more`: what was committed since."""
        found = await self._connected()
        end = await found.stable_end(self._place.frames)
        async with aclosing(frames_of(found, self._place, self._read_to, end)) as frames:
            async for frame in frames:
                self._fold.take(frame)
                if self._fold.settled:
                    self._fold.catch_up()
                if entries := entries_of(frame):
                    yield entries
        self._read_to = max(end, self._read_to)

    async def _connected(self) -> Reader:
        if self._reader is None:
            found = await self._closing.enter_async_context(reader(self._place.settings))
            self._read_to, _ = await found.bounds(self._place.frames)
            self._reader = found
        return self._reader

    async def replayed(self) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.replayed`."""
        await settle(self._place, self._fold)
        async with aclosing(replayed(self._place, self._fold, 1)) as batches:
            async for batch in batches:
                yield batch

    async def last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.last`."""
        async with aclosing(frames_up_to(self._place, (self._read_to, serial), last_serial)) as frames:
            async for frame in frames:
                if entries := entries_of(frame):
                    yield entries
