"""Defines the replay state of a ledger on Kafka, and a reader of its topics."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.fold import Fold as FramesFold
from oncegate.ledgers.frames import Frame, Sent
from oncegate.ledgers.kafka.markers.user_partitions import NewestPartitions
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Trimmed, reader
from oncegate.ledgers.kafka.shard.blobs import frames_of
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import Readback
from oncegate.ledgers.server.replay import Bytes


class Fold(FramesFold):
    """Replay state of a ledger on Kafka, built from its frames. `where`: the ledger's topic.
    A frame's offset is that of its first record.
    """

    def __init__(self, ledger: bytes, where: str) -> None:
        super().__init__(ledger, f"topic {where}")
        # Partitions that rows were sent to since they were last drained for the repair of open transactions.
        self.sent_to = NewestPartitions()

    def take_sent(self, change: Sent) -> None:
        """Records the partition that users' rows were sent to."""
        self.sent_to.add([Partition(change.topic, change.partition)])


class TopicReader:
    """Implements `replay.LedgerReader` for one ledger's topics; each call uses its own connections."""

    mend = "put the topic back from a copy"

    def __init__(self, place: KafkaPlace) -> None:
        self._place = place
        self.where = f"topic {place.frames.topic}"
        self.states = f"topic {place.states.topic}"

    @contextmanager
    def reading(self) -> Iterator[None]:
        try:
            yield
        except Trimmed as error:
            raise LedgerDamaged(f"{error}: put {self.where} back from a copy") from error
        except (KafkaError, OSError) as error:
            raise LedgerDown(f"{self.where} cannot be read now: {error!r}") from error

    async def frames(self, offset: int, serial: int) -> AsyncGenerator[Frame, None]:
        """Yields frames as `LedgerReader.frames` does. Raises Trimmed, KafkaError, OSError."""
        async with reader(self._place.settings) as committed:
            _, end = await committed.bounds(self._place.frames)
            async with aclosing(frames_of(committed, self._place, offset, end)) as frames:
                async for frame in frames:
                    yield frame

    async def pieces(self, locations: Sequence[Location]) -> AsyncGenerator[Bytes, None]:
        """Yields blobs as `LedgerReader.pieces` does. Raises LedgerDown: no broker answers."""
        states = Readback(self._place.settings, self._place.states)
        try:
            async with aclosing(states.blobs(locations)) as blobs:
                async for data in blobs:
                    yield data
        finally:
            await states.close()
