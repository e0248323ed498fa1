"""Queries leaders for open transactions, and coordinators for the state of transactional ids; writes markers."""

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

# A coordinator's state for an id without a transaction and without markers to write.
NOTHING_UNDER_WAY = "Empty"
# TRANSACTIONAL_ID_NOT_FOUND: never started, or expired.
_UNKNOWN_ID = 105


class Open(NamedTuple):
    """A producer's open transaction in a partition, where its first record is at `first_offset`."""

    partition: Partition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    first_offset: int

    def __str__(self) -> str:
        topic, number = self.partition
        return f"{topic}-{number}, offset {self.first_offset}, producer id {self.producer_id}, epoch {self.epoch}"


class State(NamedTuple):
    """A coordinator's view of a transactional id.

    `name`: its state, by Kafka's name. `partitions`: those of its current transaction.
    """

    transactional_id: str
    name: str
    producer_id: int
    epoch: int
    partitions: tuple[Partition, ...] = ()

    def has_followed(self, one: Open) -> bool:
        """True if a later producer of the same id has fenced that of `one`,
        and the coordinator has no operation in progress.
        """
        is_later = self.producer_id != one.producer_id or self.epoch > one.epoch
        return self.name == NOTHING_UNDER_WAY and is_later


class Brokers:
    """Client for transaction queries to the brokers of one cluster. Created by `brokers_of`.
    All methods raise KafkaError.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def refresh(self) -> None:
        await self._client.force_metadata_update()

    async def open_in(self, partitions: Iterable[Partition]) -> list[Open]:
        return [one for partition in partitions for one in await self._open_in(partition)]

    async def _open_in(self, partition: Partition) -> list[Open]:
        answer = await self._ask_leader(partition, describe_producers([partition]))
        (told,) = answer["topics"][0]["partitions"]
        _require(told["error_code"], partition.topic)
        return _open_of(partition, told)

    def by_leader(self, partitions: Iterable[Partition]) -> dict[int | None, list[Partition]]:
        """Groups partitions by their leader: −1 if there is none now, None if the partition does not exist."""
        found: dict[int | None, list[Partition]] = {}
        for one in partitions:
            found.setdefault(self._client.cluster.leader_for_partition(TopicPartition(*one)), []).append(one)
        return found

    async def open_at(self, node: int, partitions: Sequence[Partition]) -> tuple[list[Open], dict[Partition, int]]:
        """Returns the open transactions in partitions that this broker leads,
        and the error codes of those it refused.
        """
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
        """Returns the states of these transactional ids; omits ids that their coordinators do not know."""
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
        """Commits the open transaction in its partition, which makes its records visible."""
        await self._write_marker(one, one.epoch, committed=True)

    async def write_abort_marker(self, one: Open) -> None:
        """Aborts the open transaction in its partition under the next epoch, as a coordinator does when it fences.

        The leader then refuses late records of the old epoch.
        """
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
    """Connects to the brokers; loads the metadata of these partitions' topics, or of all topics if there are none.

    Raises KafkaError, OSError: no broker can be reached, or they refuse this client.
    """
    watch = Watch(settings)
    client = Client(settings, watch)
    try:
        with watch.telling():
            await client.bootstrap()
            topics = sorted({partition.topic for partition in partitions})
            if not await client.set_topics(topics):
                raise KafkaError("the brokers do not say who leads partitions")
            # aiokafka reports topics without the right as partitions without a leader.
            if hidden := client.cluster.unauthorized_topics.intersection(topics):
                raise TopicAuthorizationFailedError(sorted(hidden))
        yield Brokers(client)
    finally:
        await client.close()
