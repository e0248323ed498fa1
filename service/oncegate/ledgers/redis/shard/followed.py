"""Reads a shard's streams while another gateway owns them, from one server run only: another's is read anew.

What is read there is a witness too. A frame was acknowledged once its owner has appended another behind it; an opening
appends behind frames of which nobody knows whether they were, and says so in its own frame.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from oncegate.ledgers.frames import Frame, Owned, entries_of
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.shard.fold import Fold
from oncegate.ledgers.redis.shard.opening import settle
from oncegate.ledgers.redis.shard.place import RedisPlace
from oncegate.ledgers.redis.shard.reading import frames_from
from oncegate.ledgers.redis.shard.replay import frames_up_to, replayed
from oncegate.ledgers.redis.shard.rows import rows_of
from oncegate.ledgers.redis.witnesses import Witness
from oncegate.ports import Chunk, Replayed

Batch = Sequence[Replayed]
UNREADABLE: tuple[type[Exception], ...] = (Refused, Unreachable, Lost)


class FollowedStreams:
    """Implements `following.FollowedShard` over streams; gives their frames to `fold`, and `witness` what they prove.

    Use `close` last.
    """

    def __init__(self, place: RedisPlace, fold: Fold, witness: Witness) -> None:
        self._place = place
        self._fold = fold
        self._witness = witness
        self._link = Link(place.address)

    async def close(self) -> None:
        """Implements the protocol's `FollowedShard.close`."""
        await self._link.close()

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`, as far as was read; LedgerDown too."""
        return await rows_of(
            self._link, self._place, self._fold.catalog, (topic, partition, offset, max_rows, max_bytes)
        )

    async def more(self) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.more`."""
        async with aclosing(frames_from(self._link, self._place, self._fold.end.serial + 1)) as frames:
            async for frame in frames:
                self._take(frame)
                if entries := entries_of(frame):
                    yield entries

    def _take(self, frame: Frame) -> None:
        before = self._fold.end
        self._fold.take(frame)
        if self._fold.settled:
            self._fold.catch_up()
        if before.serial and not any(isinstance(change, Owned) for change in frame.body.changes):
            self._witness.follow(self._fold, before)

    async def replayed(self) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.replayed`."""
        await settle(self._link, self._place, self._fold)
        async with aclosing(replayed(self._link, self._place, self._fold, 1)) as batches:
            async for batch in batches:
                yield batch

    async def last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.last`."""
        async with aclosing(frames_up_to(self._link, self._place, serial, last_serial)) as frames:
            async for frame in frames:
                if entries := entries_of(frame):
                    yield entries
