"""Reads the streams of a ledger that another gateway owns, during a single run of the server.

The frames also advance the rollback check. A frame is known to be acknowledged once its owner has appended another
after it. An opening may append after an unacknowledged frame, so a frame with an entry of ownership proves nothing.
"""

from collections.abc import AsyncGenerator

from oncegate.ledgers.frames import Frame, Owned
from oncegate.ledgers.redis.connection import Link, Lost, Refused, Unreachable
from oncegate.ledgers.redis.shard.head import RedisPlace
from oncegate.ledgers.redis.shard.reading import Fold, StreamReader
from oncegate.ledgers.redis.witnesses import Witness
from oncegate.ledgers.server.replay import FollowedReader
from oncegate.ports import Chunk

UNREADABLE: tuple[type[Exception], ...] = (Refused, Unreachable, Lost)


class FollowedStreams(FollowedReader[Fold]):
    """Tails the streams of a ledger that another gateway owns, and advances `witness`. Call `close` last."""

    _reading: StreamReader

    def __init__(self, place: RedisPlace, fold: Fold, witness: Witness) -> None:
        self._link = Link(place.address)
        super().__init__(StreamReader(self._link, place), fold)
        self._witness = witness

    async def close(self) -> None:
        await self._link.close()

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns rows as `Outputs.fetch` does, up to the position read so far. Raises LedgerDown too."""
        return await self._reading.rows(self._fold.catalog, (topic, partition, offset, max_rows, max_bytes))

    def _new_frames(self) -> AsyncGenerator[Frame, None]:
        return self._reading.frames(0, self._fold.end.serial + 1)

    def take(self, frame: Frame) -> None:
        """Applies the next frame, and advances the rollback check to the previous frame if this frame proves it."""
        before = self._fold.end
        super().take(frame)
        if before.serial and not any(isinstance(change, Owned) for change in frame.body.changes):
            self._witness.follow(self._fold, before)
