"""Reads the lane records that clients commit to Kafka directly, from topic PREFIX.NAMESPACE.direct."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerFull
from oncegate.ledgers.kafka.namespaces import DIRECT_PARTITIONS, direct_topic, lane_ids
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Reader, Stalled, Trimmed
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.topics import shorten
from oncegate.ports import LanePlace

# Short, because a caller waits for the end, and the last entry before it is a marker that polls do not return.
_POLL_MS = 10


class DirectTopic:
    """Implements `ports.DirectRecords` for one namespace's topic. `brokers`: the addresses for clients.

    Each partition has its own reader, connected at the first read, so that a blocked partition blocks no other.
    """

    partitions = DIRECT_PARTITIONS

    def __init__(self, place: KafkaPlace, brokers: str) -> None:
        self._place = place
        self._brokers = brokers
        self._topic = direct_topic(place.listed)
        self._readers: dict[int, Reader] = {}
        # By partition, an offset range without committed records; it never gets any.
        self._empty: dict[int, tuple[int, int]] = {}
        self._closed = False

    def place(self, lane: int, partition: int) -> LanePlace:
        own_id = f"{lane_ids(self._place.listed)}{lane}"
        return LanePlace(self._place.listed.ledger, self._brokers, self._topic, partition, own_id)

    async def read(self, partition: int, first: int) -> Sequence[tuple[int, bytes]]:
        """Implements the port's `DirectRecords.read`; only one call at a time per partition."""
        at = Partition(self._topic, partition)
        try:
            if self._closed:
                raise ConnectionError("the ledger was closed")
            if partition not in self._readers:
                self._readers[partition] = Reader(self._place.settings)
            reader = self._readers[partition]
            low, end = await reader.bounds(at)
            if low > first or end < first:
                raise LedgerDamaged(
                    f"topic {at.topic}, partition {partition}, has offsets {low} to {end}, and those from {first} on "
                    "were not entered: it was trimmed by somebody else, or made anew; what was written there is not "
                    "known: put the topic back from a copy"
                )
            begin, decided = self._empty.get(partition, (-1, 0))
            async with aclosing(reader.records(at, decided if begin == first else first, end, _POLL_MS)) as records:
                read = [(one.offset, one.value or b"") async for one in records]
            self._empty[partition] = (read[-1][0] + 1 if read else first, end)
            return read
        except Trimmed as error:
            await self._drop(partition)
            raise LedgerDamaged(f"{error}, and was not entered: put the topic back from a copy") from error
        except (KafkaError, OSError, Stalled) as error:
            await self._drop(partition)
            raise LedgerFull(
                f"topic {at.topic}, partition {partition}, cannot be read now ({error!r}); nothing is known of what "
                "was written there, ask again"
            ) from error
        except asyncio.CancelledError:
            await self._drop(partition)
            raise

    async def _drop(self, partition: int) -> None:
        if (reader := self._readers.pop(partition, None)) is not None:
            await reader.stop()

    async def trim(self, before: Mapping[int, int]) -> None:
        try:
            await shorten(
                self._place.settings, {Partition(self._topic, number): offset for number, offset in before.items()}
            )
        except (KafkaError, OSError) as error:
            raise LedgerFull(f"topic {self._topic} cannot be shortened now: {error!r}") from error

    async def close(self) -> None:
        """Closes the connections; reads still running raise LedgerFull."""
        self._closed = True
        for partition in list(self._readers):
            await self._drop(partition)
