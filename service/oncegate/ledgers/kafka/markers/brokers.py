"""Asks leaders what is open in partitions, and coordinators what became of transactions."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiokafka.client import CoordinationType
from aiokafka.errors import KafkaError, LeaderNotAvailableError, TopicAuthorizationFailedError, for_code
from aiokafka.structs import TopicPartition

from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.kafka.markers.wire import describe_producers, describe_transaction, write_marker
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.watch import Watch

# A coordinator has written all markers that it will.
NOTHING_UNDER_WAY = "Empty"
# A transactional id that no producer has started yet, or none for long.
_UNKNOWN_ID = 105


class Open(NamedTuple):
    """Describes what a producer has open in a partition, from its record at `first_offset` on."""

    partition: Partition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    first_offset: int

    def __str__(self) -> str:
        topic, number = self.partition
        return f"{topic}-{number}, offset {self.first_offset}, producer id {self.producer_id}, epoch {self.epoch}"


class State(NamedTuple):
    """Says what a coordinator knows of a transactional id: its state by Kafka's name, its producer, where it writes.

    `partitions`: of the transaction that is under way.
    """

    transactional_id: str
    name: str
    producer_id: int
    epoch: int
    partitions: tuple[Partition, ...] = ()

    def has_followed(self, one: Open) -> bool:
        """Whether a later producer of the id that wrote `one` has fenced it, and nothing is under way any more."""
        is_later = self.producer_id != one.producer_id or self.epoch > one.epoch
        return self.name == NOTHING_UNDER_WAY and is_later


class Brokers:
    """Asks the brokers of one cluster. Made by `brokers_of`; all raise KafkaError where one does not answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def refresh(self) -> None:
        """Refreshes which broker leads which partition."""
        await self._client.force_metadata_update()

    async def open_in(self, partitions: Iterable[Partition]) -> list[Open]:
        """Returns the transactions that are open in these partitions."""
        return [one for partition in partitions for one in await self._open_in(partition)]

    async def _open_in(self, partition: Partition) -> list[Open]:
        answer = await self._ask_leader(partition, describe_producers([partition]))
        (told,) = answer["topics"][0]["partitions"]
        _require(told["error_code"], partition.topic)
        return _open_of(partition, told)

    def by_leader(self, partitions: Iterable[Partition]) -> dict[int | None, list[Partition]]:
        """Groups partitions by the broker that leads them; −1: none does now, None: there is no such partition."""
        found: dict[int | None, list[Partition]] = {}
        for one in partitions:
            found.setdefault(self._client.cluster.leader_for_partition(TopicPartition(*one)), []).append(one)
        return found

    async def open_at(self, node: int, partitions: Sequence[Partition]) -> tuple[list[Open], dict[Partition, int]]:
        """Returns what is open in partitions that this broker leads, and Kafka's code for those that it refuses."""
        answer = (await self._client.send(node, describe_producers(partitions))).to_object()
        found, refused = list[Open](), dict[Partition, int]()
        for topic in answer["topics"]:
            for told in topic["partitions"]:
                partition = Partition(topic["topic"], told["partition"])
                if told["error_code"]:
                    refused[partition] = told["error_code"]
                else:
                    found += _open_of(partition, told)
        return found, refused

    async def states(self, transactional_ids: Iterable[str]) -> list[State]:
        """Returns the states of those of these ids that their coordinators know."""
        return [state for name in transactional_ids for state in await self._state(name)]

    async def _state(self, transactional_id: str) -> list[State]:
        node = await self._client.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
        (told,) = (await self._client.send(node, describe_transaction(transactional_id))).to_object()["states"]
        if told["error_code"] == _UNKNOWN_ID:
            return []
        _require(told["error_code"], transactional_id)
        topics = ((topic["topic"], topic["partitions"]) for topic in told["topics"])
        under_way = tuple(Partition(topic, number) for topic, numbers in topics for number in numbers)
        return [State(transactional_id, told["state"], told["producer_id"], told["producer_epoch"], under_way)]

    async def write_commit_marker(self, one: Open) -> None:
        """Commits the open transaction in its partition: readers get its records."""
        await self._write_marker(one, one.epoch, committed=True)

    async def write_abort_marker(self, one: Open) -> None:
        """Gives what is open there up, in the epoch that a coordinator fences with: what comes late is refused."""
        await self._write_marker(one, one.epoch + 1, committed=False)

    async def _write_marker(self, one: Open, epoch: int, *, committed: bool) -> None:
        marker = write_marker(one.partition, (one.producer_id, epoch), committed, one.coordinator_epoch)
        answer = await self._ask_leader(one.partition, marker)
        _require(answer["markers"][0]["topics"][0]["partitions"][0]["error_code"], one.partition.topic)

    async def _ask_leader(self, partition: Partition, request: Any) -> dict[str, Any]:
        node = self._client.cluster.leader_for_partition(TopicPartition(*partition))
        if node is None or node < 0:
            raise LeaderNotAvailableError(f"{partition.topic}-{partition.number}")
        answer: dict[str, Any] = (await self._client.send(node, request)).to_object()
        return answer


def _open_of(partition: Partition, told: Mapping[str, Any]) -> list[Open]:
    return [
        Open(partition, one["producer_id"], one["producer_epoch"], one["coordinator_epoch"], one["first_offset"])
        for one in told["producers"]
        if one["first_offset"] >= 0
    ]


def _require(code: int, what: str) -> None:
    if code:
        raise for_code(code)(what)


@asynccontextmanager
async def brokers_of(settings: Mapping[str, Any], partitions: Iterable[Partition]) -> AsyncIterator[Brokers]:
    """Connects to the leaders of these partitions, of none: to all.

    KafkaError, OSError: nobody is there, or refuses this client, and then the text says what an operator has to do.
    """
    watch = Watch(settings)
    client = Client(settings, watch)
    try:
        with watch.telling():
            await client.bootstrap()
            topics = sorted({partition.topic for partition in partitions})
            if not await client.set_topics(topics):
                raise KafkaError("the brokers do not say who leads partitions")
            # aiokafka keeps them apart, and says then that they have no leader.
            if hidden := client.cluster.unauthorized_topics.intersection(topics):
                raise TopicAuthorizationFailedError(sorted(hidden))
        yield Brokers(client)
    finally:
        await client.close()
