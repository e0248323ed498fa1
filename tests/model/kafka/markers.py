"""Replaces `markers.brokers`: answers about open transactions by a model's brokers.

The behaviour is Kafka's (4.3.1, measured). DescribeProducers goes to a partition's leader. DescribeTransactions returns
Empty after a start and CompleteCommit after a commit. A client that may alter the cluster writes a producer's marker.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaConnectionError, LeaderNotAvailableError

from oncegate.ledgers.kafka.markers.brokers import Open, State
from oncegate.ledgers.kafka.partition import Partition
from tests.model.kafka.brokers import ABORTED, COMMITTED

if TYPE_CHECKING:
    from tests.model.kafka.world import Process

NODE = 1
# The error code of one partition in an answer about several.
_NO_LEADER = 5


class Brokers:
    """Like `markers.brokers.Brokers`."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._brokers = process.world.brokers

    async def refresh(self) -> None:
        """Refreshes the leaders of partitions."""

    async def open_in(self, partitions: Iterable[Partition]) -> list[Open]:
        await self._turn("asks what is open")
        found = list[Open]()
        for one in partitions:
            if not self._brokers.log(one).has_leader:
                raise LeaderNotAvailableError(one.topic)
            found += self._open_in(one)
        return found

    def by_leader(self, partitions: Iterable[Partition]) -> dict[int | None, list[Partition]]:
        found: dict[int | None, list[Partition]] = {}
        for one in partitions:
            found.setdefault(NODE if self._brokers.log(one).has_leader else -1, []).append(one)
        return found

    async def open_at(self, _: int, partitions: Sequence[Partition]) -> tuple[list[Open], dict[Partition, int]]:
        await self._turn("asks what is open in users' topics")
        led = [one for one in partitions if self._brokers.log(one).has_leader]
        found = [one for partition in led for one in self._open_in(partition)]
        return found, {one: _NO_LEADER for one in partitions if one not in led}

    async def states(self, transactional_ids: Iterable[str]) -> list[State]:
        await self._turn("asks what became of transactions")
        known = self._brokers.producers
        names = [name for name in transactional_ids if name in known]
        return [State(name, known[name].state, known[name].number, known[name].epoch) for name in names]

    async def write_commit_marker(self, one: Open) -> None:
        await self._write(one, COMMITTED)

    async def write_abort_marker(self, one: Open) -> None:
        """Writes an abort marker, as an operator does."""
        await self._write(one, ABORTED)

    async def _write(self, one: Open, state: str) -> None:
        await self._turn(f"writes what was {state} into {one.partition.topic}")
        if not self._brokers.log(one.partition).has_leader:
            raise LeaderNotAvailableError(one.partition.topic)
        (name,) = [name for name, known in self._brokers.producers.items() if known.number == one.producer_id]
        self._brokers.decide(one.partition, name, state)
        self._process.world.changed()

    def _open_in(self, partition: Partition) -> list[Open]:
        producers = self._brokers.producers
        return [
            Open(partition, producers[name].number, epoch, 0, offset)
            for name, (epoch, offset) in self._brokers.open_in(partition).items()
        ]

    async def _turn(self, what: str) -> None:
        if await self._process.turn(what) == "lost":
            raise KafkaConnectionError("the model loses it")


@asynccontextmanager
async def brokers_of(settings: Mapping[str, Any], _: Iterable[Partition]) -> AsyncIterator[Brokers]:
    yield Brokers(settings["process"])
