"""Creates the topics of ledgers, and checks their settings."""

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

# Settings of a ledger's topics, checked at each opening.
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED = {"cleanup.policy": "compact"}
_SAFE = {"unclean.leader.election.enable": "false"}
# The active segment is never compacted, and the list is read whole at each start.
_SMALL_SEGMENTS = {"segment.bytes": str(8 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A part of a frame plus the overhead of its batch.
RECORD_BYTES = 1_000_000
# The brokers' default of message.max.bytes.
MESSAGE_BYTES = 1_048_588
# Every broker knows a new topic, and its leader, within seconds.
LEADER_S = 30.0
_POLL_S = 0.02
_HINT = "oncegate kafka plan prints how"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Required settings of a ledger's topic.

    `exactly`: values that must match. `at_least`: for each setting, the value at creation and the minimum accepted of
    an existing topic. `beside`: set at creation and not checked.
    """

    name: str
    replication: int
    exactly: Mapping[str, str]
    at_least: Mapping[str, tuple[int, int]]
    beside: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1

    @property
    def settings(self) -> dict[str, str]:
        given = {name: str(made) for name, (made, _) in self.at_least.items()}
        return {**self.exactly, **given, **self.beside}

    def wrong(self, found: Mapping[str, str], replicas: Sequence[int]) -> list[str]:
        """Returns the differences between a topic's settings, partitions and replicas and the required ones.

        `found`: its settings; `replicas`: the number of replicas of each partition.
        """
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
    """Returns the requirements for topics of these names. `configs`: `KEPT` or `COMPACTED`."""
    insync, size_bytes = (address.min_insync, address.min_insync), (MESSAGE_BYTES, RECORD_BYTES)
    at_least = {"min.insync.replicas": insync, "max.message.bytes": size_bytes}
    beside = _SMALL_SEGMENTS if configs is COMPACTED else {}
    exactly = {**configs, **_SAFE}
    return [Wanted(name, address.replication, exactly, at_least, beside, partitions) for name in names]


class Admin(AIOKafkaAdminClient):  # type: ignore[misc]
    """aiokafka's admin client over our `Client`. Sends to a reachable broker; aiokafka picks any at random."""

    def __init__(self, settings: Mapping[str, Any], watch: Watch) -> None:
        super().__init__(**settings)
        self._client = Client(settings, watch)

    async def topic_ids(self, topics: Collection[str]) -> dict[str, bytes]:
        """Returns the ids, 16 bytes each, of these topics; omits topics that do not exist. Raises KafkaError."""
        answer = (await self._send_request(describe_topics(topics))).to_object()
        return {one["topic"]: one["topic_id"] for one in answer["topics"] if not one["error_code"]}

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        return await self._client.send(await self._any_node() if node_id is None else node_id, request)

    async def _any_node(self) -> Any:
        """Returns a reachable broker; if there is none, a random one,
        so that the next request raises its connection error.
        """
        nodes = [broker.nodeId for broker in self._client.cluster.brokers()]
        for node in random.sample(nodes, len(nodes)):
            if await self._client.ready(node):
                return node
        return self._client.get_random_node()


class Topics:
    """Lists, creates and checks topics."""

    def __init__(self, admin: Admin, address: Address) -> None:
        self._admin = admin
        self._address = address

    async def names(self) -> set[str]:
        """Returns the names of all topics that this client may describe. Raises KafkaError."""
        return set(await self._admin.list_topics())

    async def make(self, names: Sequence[str], configs: Mapping[str, str], partitions: int = 1) -> None:
        """Creates the missing topics, and waits until each has a leader. Raises KafkaError.

        If none is missing, the right to CREATE is not needed.
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
        """Waits until a broker reports a leader for each partition of the topic."""
        while True:
            (described,) = await self._admin.describe_topics([name])
            if not described["error_code"] and all(not one["error_code"] for one in described["partitions"]):
                return
            await sleep_s(_POLL_S)

    async def check(self, names: Sequence[str], configs: Mapping[str, str], partitions: int = 1) -> None:
        """Raises LedgerDamaged, listing all wrong settings of these topics, if there are any; may raise KafkaError."""
        found = await self.wrong(wanted(self._address, names, configs, partitions))
        if wrong := [f"topic {name} has {one}" for name, said in found.items() for one in said]:
            raise LedgerDamaged(f"{'; '.join(wrong)}; nothing was read or written: mend the settings, then start again")

    async def wrong(self, topics: Sequence[Wanted]) -> dict[str, list[str]]:
        """Returns the differences between each topic and its requirements, keyed by topic name;
        all topics must exist. Raises KafkaError.
        """
        until = now_s() + LEADER_S
        while True:
            try:
                return await self._wrong(topics)
            except UnknownTopicOrPartitionError:
                # The request goes to any broker, which may not know a new topic yet.
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
                    raise kind(f"the settings of topic {name} cannot be read")
                found[name] = {key: value for key, value, *_ in values}
        described = await self._admin.describe_topics([one.name for one in topics])
        for one in described:
            # A broker that has just started describes a topic that it does not know yet as one without partitions.
            if one["error_code"]:
                raise for_code(one["error_code"])(f"topic {one['topic']} cannot be described")
        replicas = {one["topic"]: [len(at["replicas"]) for at in one["partitions"]] for one in described}
        return {one.name: one.wrong(found[one.name], replicas[one.name]) for one in topics}


async def shorten(settings: Mapping[str, Any], before: Mapping[Partition, int]) -> None:
    """Deletes the records before an offset in each partition.

    Raises KafkaError, OSError: some may have been deleted.
    """
    asked = {TopicPartition(*partition): RecordsToDelete(offset) for partition, offset in before.items()}
    async with admin_of(settings) as admin:
        try:
            await admin.delete_records(asked)
        except TopicAuthorizationFailedError as error:
            # The error does not name the topic.
            named = TopicAuthorizationFailedError(sorted({topic for topic, _ in before}))
            raise BrokersRefuse(str(refusal_of(named, Caller.of(settings, SHORTENING)))) from error


@asynccontextmanager
async def topics_of(address: Address) -> AsyncIterator[Topics]:
    """Connects a `Topics`. Raises as `admin_of`."""
    async with admin_of(address.settings) as admin:
        yield Topics(admin, address)


@asynccontextmanager
async def admin_of(settings: Mapping[str, Any]) -> AsyncIterator[Admin]:
    """Connects an admin client. Raises KafkaError, OSError: no broker can be reached, or they refuse it."""
    watch = Watch(settings)
    admin = Admin(settings, watch)
    try:
        with watch.telling():
            await admin.start()
        yield admin
    finally:
        await sleep_s(0)
        await admin.close()
