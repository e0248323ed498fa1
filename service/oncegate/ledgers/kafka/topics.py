"""Makes the topics of ledgers, and checks that they keep what they are given."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code
from aiokafka.structs import TopicPartition

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.kafka.address import Address
from oncegate.ledgers.kafka.guard import Partition
from oncegate.ledgers.kafka.pause import pause, turn

# Of what a ledger is written with, and checked for at each opening.
KEPT = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
COMPACTED = {"cleanup.policy": "compact"}
_SAFE = {"unclean.leader.election.enable": "false"}
# A compacted topic is compacted but for its last segment: the list is read whole at each start.
_SMALL_SEGMENTS = {"segment.bytes": str(8 << 20), "min.cleanable.dirty.ratio": "0.1"}
# A part of a frame and what a batch has beside it.
RECORD_BYTES = 1_000_000
# A new topic is known to every broker and has a leader within seconds.
LEADER_S = 30.0
_POLL_S = 0.02
_BOUNDS = ("min.insync.replicas", "max.message.bytes")


class Topics:
    """Asks the brokers to make, check and list topics."""

    def __init__(self, admin: AIOKafkaAdminClient, address: Address) -> None:
        self._admin = admin
        self._address = address

    async def names(self) -> set[str]:
        """Returns the names of all topics that this client may see; KafkaError."""
        return set(await self._admin.list_topics())

    async def make(self, names: Iterable[str], configs: Mapping[str, str]) -> None:
        """Makes topics of one partition, where they are not there; returns once each has a leader. KafkaError."""
        more = _SMALL_SEGMENTS if configs is COMPACTED else {}
        asked = {"min.insync.replicas": str(self._address.min_insync), **_SAFE, **configs, **more}
        new = [NewTopic(name, 1, self._address.replication, topic_configs=asked) for name in names]
        answer = await self._admin.create_topics(new)
        for name, code, *said in answer.topic_errors:
            kind = for_code(code)
            if code and kind is not TopicAlreadyExistsError:
                raise kind(f"topic {name} cannot be made: {' '.join(filter(None, said))}")
        async with asyncio.timeout(LEADER_S):
            for name in names:
                await self._await_leader(name)

    async def _await_leader(self, name: str) -> None:
        """Returns once every broker that is asked knows the topic's leader."""
        while True:
            (described,) = await self._admin.describe_topics([name])
            if not described["error_code"] and all(not one["error_code"] for one in described["partitions"]):
                return
            await pause(_POLL_S)

    async def check(self, names: Sequence[str], configs: Mapping[str, str]) -> None:
        """Raises LedgerDamaged unless these topics keep what they are given, with all that is wrong; KafkaError."""
        wanted = {**configs, **_SAFE}
        resources = [
            ConfigResource(ConfigResourceType.TOPIC, name, dict.fromkeys((*wanted, *_BOUNDS))) for name in names
        ]
        wrong: list[str] = []
        for answer in await self._admin.describe_configs(resources):
            for code, _, _, name, values in answer.resources:
                if code:
                    raise for_code(code)(f"the settings of topic {name} are not told")
                found = {key: value for key, value, *_ in values}
                wrong += [f"topic {name} has {one}" for one in self._wrong(found, wanted)]
        wrong += [f"topic {name} has {said}" for name, said in await self._wrong_replicas(names)]
        if wrong:
            raise LedgerDamaged(f"{'; '.join(wrong)}; nothing was read or written: mend the settings, then start again")

    def _wrong(self, found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
        said = [f"{key}={found.get(key)}, not {value}" for key, value in wanted.items() if found.get(key) != value]
        if int(found["min.insync.replicas"]) < self._address.min_insync:
            said.append(f"min.insync.replicas={found['min.insync.replicas']}, not {self._address.min_insync}")
        if int(found["max.message.bytes"]) < RECORD_BYTES:
            said.append(f"max.message.bytes={found['max.message.bytes']}, less than {RECORD_BYTES}")
        return said

    async def _wrong_replicas(self, names: Sequence[str]) -> list[tuple[str, str]]:
        wrong = []
        for described in await self._admin.describe_topics(list(names)):
            partitions = described["partitions"]
            if len(partitions) != 1:
                wrong.append((described["topic"], f"{len(partitions)} partitions, not 1"))
            replicas = min((len(one["replicas"]) for one in partitions), default=0)
            if replicas < self._address.replication:
                wrong.append((described["topic"], f"{replicas} replicas, not {self._address.replication}"))
        return wrong


async def shorten(settings: Mapping[str, Any], before: Mapping[Partition, int]) -> None:
    """Deletes the records before an offset of each partition; KafkaError, OSError: some may be deleted."""
    asked = {TopicPartition(*partition): RecordsToDelete(offset) for partition, offset in before.items()}
    async with _admin(settings) as admin:
        await admin.delete_records(asked)


@asynccontextmanager
async def topics_of(address: Address) -> AsyncIterator[Topics]:
    """Connects a client that asks about topics; KafkaError, OSError: no broker is there."""
    async with _admin(address.settings) as admin:
        yield Topics(admin, address)


@asynccontextmanager
async def _admin(settings: Mapping[str, Any]) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**settings)
    try:
        await admin.start()
        yield admin
    finally:
        await turn()
        await admin.close()
