"""Makes the topics of ledgers, and checks that they keep their records."""

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.structs import TopicPartition

from oncegate.clock import now_s, sleep_s
from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.kafka.address import Address
from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.kafka.markers.wire import describe_topics
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.refusals import LOOKING, SHORTENING, BrokersRefuse, Caller, refusal_of
from oncegate.ledgers.kafka.watch import Watch

# Of what a ledger is written with, and checked for at each opening.
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED = {"cleanup.policy": "compact"}
_SAFE = {"unclean.leader.election.enable": "false"}
# A compacted topic is compacted but for its last segment: the list is read whole at each start.
_SMALL_SEGMENTS = {"segment.bytes": str(8 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A part of a frame and what a batch has beside it.
RECORD_BYTES = 1_000_000
# What brokers take of a batch unless they are told otherwise.
MESSAGE_BYTES = 1_048_588
# A new topic is known to every broker and has a leader within seconds.
LEADER_S = 30.0
_POLL_S = 0.02
_HINT = "oncegate kafka plan prints how"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Says what a topic of a ledger is, by settings: `exactly` so, `at_least` so; `beside` is given and not asked for.

    `at_least` has what is given, and the least that is taken of a topic that is there.
    """

    name: str
    replication: int
    exactly: Mapping[str, str]
    at_least: Mapping[str, tuple[int, int]]
    beside: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1

    @property
    def settings(self) -> dict[str, str]:
        """What the topic is made with."""
        given = {name: str(made) for name, (made, _) in self.at_least.items()}
        return {**self.exactly, **given, **self.beside}

    def wrong(self, found: Mapping[str, str], replicas: Sequence[int]) -> list[str]:
        """Says what of a topic's settings, and of the replicas of each of its partitions, is not as wanted."""
        said = [f"{key}={found.get(key)}, not {value}" for key, value in self.exactly.items() if found[key] != value]
        for key, (_, least) in self.at_least.items():
            if int(found[key]) < least:
                said.append(f"{key}={found[key]}, less than {least}")
        if len(replicas) != self.partitions:
            said.append(f"{len(replicas)} partitions, not {self.partitions}")
        if min(replicas, default=0) < self.replication:
            said.append(f"{min(replicas, default=0)} replicas, not {self.replication}")
        return said


def wanted(address: Address, names: Sequence[str], configs: Mapping[str, str], partitions: int = 1) -> list[Wanted]:
    """Says what topics are that hold what `KEPT` or `COMPACTED` names: for who makes, checks or plans them."""
    insync, size_bytes = (address.min_insync, address.min_insync), (MESSAGE_BYTES, RECORD_BYTES)
    at_least = {"min.insync.replicas": insync, "max.message.bytes": size_bytes}
    beside = _SMALL_SEGMENTS if configs is COMPACTED else {}
    exactly = {**configs, **_SAFE}
    return [Wanted(name, address.replication, exactly, at_least, beside, partitions) for name in names]


class Admin(AIOKafkaAdminClient):  # type: ignore[misc]
    """Asks a broker that is there what any broker may be asked; aiokafka's own client takes one by chance."""

    def __init__(self, settings: Mapping[str, Any], watch: Watch) -> None:
        super().__init__(**settings)
        self._client = Client(settings, watch)

    async def topic_ids(self, topics: Collection[str]) -> dict[str, bytes]:
        """Returns the id of each of these topics that is there, 16 bytes; KafkaError."""
        answer = (await self._send_request(describe_topics(topics))).to_object()
        return {one["topic"]: one["topic_id"] for one in answer["topics"] if not one["error_code"]}

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        return await self._client.send(await self._any_node() if node_id is None else node_id, request)

    async def _any_node(self) -> Any:
        """A broker that can be reached; where none can, one by chance, whose error is told."""
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        for node in random.sample(nodes, len(nodes)):
            if await self._client.ready(node):
                return node
        return self._client.get_random_node()


class Topics:
    """Asks the brokers to make, check and list topics."""

    def __init__(self, admin: Admin, address: Address) -> None:
        self._admin = admin
        self._address = address

    async def names(self) -> set[str]:
        """Returns the names of all topics that this client may see; KafkaError."""
        return set(await self._admin.list_topics())

    async def make(self, names: Sequence[str], configs: Mapping[str, str], partitions: int = 1) -> None:
        """Makes the topics that are not there; returns once each of these has a leader. KafkaError.

        Where all are there no right to make any is needed.
        """
        there = await self.names()
        missing = [one for one in wanted(self._address, names, configs, partitions) if one.name not in there]
        if not missing:
            return
        new = [NewTopic(one.name, one.partitions, one.replication, topic_configs=one.settings) for one in missing]
        answer = await self._admin.create_topics(new)
        for name, code, *said in answer.topic_errors:
            kind = for_code(code)
            if kind in (TopicAuthorizationFailedError, ClusterAuthorizationFailedError):
                caller = Caller.of(self._address.settings)
                raise BrokersRefuse(f"topic {name} is missing: make it ({_HINT}), or allow {caller} to CREATE it")
            if code and kind is not TopicAlreadyExistsError:
                raise kind(f"topic {name} cannot be made: {' '.join(filter(None, said))}")
        async with asyncio.timeout(LEADER_S):
            for one in missing:
                await self._await_leader(one.name)

    async def _await_leader(self, name: str) -> None:
        """Returns once every broker that is asked knows the topic's leader."""
        while True:
            (described,) = await self._admin.describe_topics([name])
            if not described["error_code"] and all(not one["error_code"] for one in described["partitions"]):
                return
            await sleep_s(_POLL_S)

    async def check(self, names: Sequence[str], configs: Mapping[str, str], partitions: int = 1) -> None:
        """Raises LedgerDamaged unless these topics keep what they are given, with all that is wrong; KafkaError."""
        found = await self.wrong(wanted(self._address, names, configs, partitions))
        if wrong := [f"topic {name} has {one}" for name, said in found.items() for one in said]:
            raise LedgerDamaged(f"{'; '.join(wrong)}; nothing was read or written: mend the settings, then start again")

    async def wrong(self, topics: Sequence[Wanted]) -> dict[str, list[str]]:
        """Says by its name what of each topic is not as wanted; all of them are there. KafkaError."""
        until = now_s() + LEADER_S
        while True:
            try:
                return await self._wrong(topics)
            except UnknownTopicOrPartitionError:
                # Any broker is asked, and one may not have heard of a topic that was just made.
                if now_s() > until:
                    raise
                await sleep_s(_POLL_S)

    async def _wrong(self, topics: Sequence[Wanted]) -> dict[str, list[str]]:
        resources = [
            ConfigResource(ConfigResourceType.TOPIC, one.name, dict.fromkeys((*one.exactly, *one.at_least)))
            for one in topics
        ]
        found: dict[str, dict[str, str]] = {}
        for answer in await self._admin.describe_configs(resources):
            for code, _, _, name, values in answer.resources:
                if (kind := for_code(code)) is TopicAuthorizationFailedError:
                    raise BrokersRefuse(str(refusal_of(kind(name), Caller.of(self._address.settings, LOOKING))))
                if code:
                    raise kind(f"the settings of topic {name} are not told")
                found[name] = {key: value for key, value, *_ in values}
        described = await self._admin.describe_topics([one.name for one in topics])
        replicas = {one["topic"]: [len(at["replicas"]) for at in one["partitions"]] for one in described}
        return {one.name: one.wrong(found[one.name], replicas[one.name]) for one in topics}


async def shorten(settings: Mapping[str, Any], before: Mapping[Partition, int]) -> None:
    """Deletes the records before an offset of each partition; KafkaError, OSError: some may be deleted."""
    asked = {TopicPartition(*partition): RecordsToDelete(offset) for partition, offset in before.items()}
    async with admin_of(settings) as admin:
        try:
            await admin.delete_records(asked)
        except TopicAuthorizationFailedError as error:
            # It does not say which.
            named = TopicAuthorizationFailedError(sorted({topic for topic, _ in before}))
            raise BrokersRefuse(str(refusal_of(named, Caller.of(settings, SHORTENING)))) from error


@asynccontextmanager
async def topics_of(address: Address) -> AsyncIterator[Topics]:
    """Connects a client that asks about topics; KafkaError, OSError: no broker is there."""
    async with admin_of(address.settings) as admin:
        yield Topics(admin, address)


@asynccontextmanager
async def admin_of(settings: Mapping[str, Any]) -> AsyncIterator[Admin]:
    """Connects a client that administers topics; KafkaError, OSError: no broker is there, or refuses it."""
    watch = Watch(settings)
    admin = Admin(settings, watch)
    try:
        with watch.telling():
            await admin.start()
        yield admin
    finally:
        await sleep_s(0)
        await admin.close()
