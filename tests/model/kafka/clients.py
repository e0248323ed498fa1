"""Replaces aiokafka's clients by clients of a model's brokers: each call of the ledger waits for its turn.

Each request is one step. A walk may lose the request or its answer, or delay it.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiokafka.errors import KafkaConnectionError

from oncegate.arraytypes import I64
from oncegate.ledgers.kafka import followed, namespaces, shard
from oncegate.ledgers.kafka.markers import healing, user_partitions
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Record, Stalled, Trimmed
from oncegate.ledgers.kafka.record_batch import Field
from oncegate.ledgers.kafka.rows import partitions, stream, user_topics
from oncegate.ledgers.kafka.rows.partitions import Share
from oncegate.ledgers.kafka.transactions import ends
from oncegate.ledgers.kafka.transactions.ends import InDoubt, NotWritten
from oncegate.ledgers.kafka.transactions.sending import each_of
from oncegate.ledgers.server import election
from tests.model.kafka.brokers import Away, Fenced, Pair
from tests.model.kafka.clock import Numbers, sleep_s
from tests.model.kafka.markers import brokers_of
from tests.model.kafka.users import USERS

if TYPE_CHECKING:
    from tests.model.kafka.world import Process

# Records per batch: few, so that a frame has several batches.
BATCH_RECORDS = 2
PART_BYTES = 120
# Number of reads of a partition with an open transaction.
LOOKS_MAX = 6
# Partitions of each user topic.
PARTITIONS = 2


class Encoded:
    """Records as a batch."""

    def __init__(self, records: Sequence[Pair]) -> None:
        self.records = list(records)

    def record_count(self) -> int:
        return len(self.records)


def record_batches(records: Sequence[Pair]) -> list[Encoded]:
    return [Encoded(records[at : at + BATCH_RECORDS]) for at in range(0, len(records), BATCH_RECORDS)]


class Guard:
    """Like `guard.Guard`: one transaction at a time, and none after a failed one."""

    def __init__(self, settings: Mapping[str, Any], transactional_id: str, *_: Any) -> None:
        self._process: Process = settings["process"]
        self._brokers = self._process.world.brokers
        self.transactional_id = transactional_id
        self._epoch = 0
        self.closed = True
        self._has_been_cut = False

    async def start(self) -> None:
        fate = await self._process.turn(f"starts {self.transactional_id}")
        if fate == "lost":
            raise KafkaConnectionError("the model loses it")
        over = self._process.world.forgotten(self.transactional_id, USERS)
        self._epoch = self._brokers.init(self.transactional_id, over)
        self._process.world.changed()
        if fate == "unanswered":
            raise KafkaConnectionError("the model loses its answer")
        self.closed = False

    @property
    def is_worn(self) -> bool:
        return self.closed or self._has_been_cut

    async def close(self) -> None:
        self.closed = True

    async def commit(self, batches: Any, then: Any = lambda _: ()) -> list[int]:
        if self.closed:
            raise RuntimeError("closed")
        try:
            offsets = [await self._produce(batch) async for batch in each_of(batches)]
            offsets += [await self._produce(batch) for batch in then(offsets)]
            await self._end()
        except BaseException:
            self.closed = True
            raise
        return offsets

    async def _produce(self, batch: Any) -> int:
        fate = await self._process.turn(f"writes {batch.partition.topic} by {self.transactional_id}")
        try:
            return self._produced(batch, fate)
        except NotWritten as error:
            self._process.refused += [(partition.topic, self._process.world.now_s()) for partition in error.culprits]
            raise

    def _produced(self, batch: Any, fate: str) -> int:
        if fate == "lost":
            raise NotWritten("the model loses a batch", [batch.partition])
        try:
            offset = self._brokers.produce(self.transactional_id, self._epoch, batch.partition, batch.encoded.records)
        except Fenced:
            raise ends.Fenced("fenced") from None
        except Away:
            raise NotWritten("no leader", [batch.partition]) from None
        if fate == "unanswered":
            raise NotWritten("the model loses the answer to a batch", [batch.partition])
        return -1 if fate == "untold" else offset

    async def _end(self) -> None:
        fate = await self._process.turn(f"commits {self.transactional_id}")
        if fate in ("lost", "late"):
            if fate == "late":
                self._process.world.late.append((self.transactional_id, self._epoch))
            raise InDoubt("the model loses it")
        forgotten = self._process.world.forgotten(self.transactional_id)
        try:
            self._brokers.end(self.transactional_id, self._epoch, True, forgotten)
        except Fenced:
            raise ends.Fenced("fenced") from None
        # The connection to a killed coordinator breaks, which is noticed before the next transaction.
        self._has_been_cut = bool(forgotten)
        self._process.world.changed()
        if fate == "unanswered":
            raise InDoubt("the model loses the answer")


class Reader:
    """Like `reading.Reader`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._process: Process = settings["process"]
        self._brokers = self._process.world.brokers

    async def stop(self) -> None:
        """Disconnects."""

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        if await self._process.turn(f"asks where {partition.topic} ends") == "lost":
            raise KafkaConnectionError("the model loses it")
        log = self._brokers.log(partition)
        return log.start, log.end

    async def stable_end(self, partition: Partition) -> int:
        if await self._process.turn(f"asks how far {partition.topic} is decided") == "lost":
            raise KafkaConnectionError("the model loses it")
        return self._brokers.log(partition).stable

    async def records(self, partition: Partition, first: int, end: int) -> AsyncGenerator[Record, None]:
        position, looks = first, 0
        while position < end:
            await self._process.turn(f"reads {partition.topic} from {position}")
            log = self._brokers.log(partition)
            if position < log.start:
                raise Trimmed(f"{position}")
            until = min(end, log.stable)
            looks = looks + 1 if until <= position else 0
            if looks > LOOKS_MAX:
                raise Stalled(f"{partition} at {position}")
            found, position = log.committed(position, until), max(position, until)
            for offset, entry in found:
                yield Record(offset, entry.key, entry.value)


@asynccontextmanager
async def reader(settings: Mapping[str, Any]) -> AsyncIterator[Reader]:
    yield Reader(settings)


async def shorten(settings: Mapping[str, Any], before: Mapping[Partition, int]) -> None:
    process: Process = settings["process"]
    if await process.turn("shortens its topics") == "lost":
        raise KafkaConnectionError("the model loses it")
    for partition, offset in before.items():
        process.world.brokers.delete(partition, offset)
    process.world.changed()


async def put(listed: Any, key: str, value: bytes | None) -> None:
    process: Process = listed._settings["process"]
    if await process.turn(f"puts {key}") == "lost":
        raise KafkaConnectionError("the model loses it")
    process.world.brokers.put(listed.partition, (key.encode(), value))


class Admin:
    """Like `AIOKafkaAdminClient` for users' topics: it describes leaders, but no settings."""

    def __init__(self, process: "Process") -> None:
        self._process = process

    async def describe_topics(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        if await self._process.turn("asks for users' topics") == "lost":
            raise KafkaConnectionError("the model loses it")
        return [{"topic": topic, "error_code": 0, "partitions": self._led(topic)} for topic in topics]

    def _led(self, topic: str) -> list[dict[str, int]]:
        led = [self._process.world.brokers.log(Partition(topic, number)).has_leader for number in range(PARTITIONS)]
        return [{"partition": number, "leader": 1 if is_led else -1} for number, is_led in enumerate(led)]

    async def describe_configs(self, _: object) -> list[Any]:
        return []


@asynccontextmanager
async def admin_of(settings: Mapping[str, Any]) -> AsyncIterator[Admin]:
    yield Admin(settings["process"])


def row_batches(share: Share, _: object) -> list[Encoded]:
    """Replaces the encoder of users' records."""
    values = share.records.values
    ends = values.starts + values.lengths
    return [Encoded([(None, bytes(values.data[first:end])) for first, end in zip(values.starts, ends, strict=True)])]


def no_hashes(keys: Field) -> I64:
    """Replaces the compiled hash function, which is slow to load: no row of a walk has a key."""
    return np.zeros(len(keys.lengths), np.int64)


# By the name in the ledger's modules.
_NAMES: dict[str, Any] = {
    "Guard": Guard,
    "Reader": Reader,
    "reader": reader,
    "brokers_of": brokers_of,
    "admin_of": admin_of,
    "sleep_s": sleep_s,
    "wall_ms": lambda: 0,
    "os": Numbers,
    "record_batches": record_batches,
    "_batches": row_batches,
    "murmur2": no_hashes,
    "check": lambda _: None,
    "PART_BYTES": PART_BYTES,
    "shorten": shorten,
}


def in_place_of(module: ModuleType) -> dict[str, Any]:
    """Returns the replacements of a module's clients."""
    return {name: made for name, made in _NAMES.items() if hasattr(module, name)}


def replace_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the clients of the ledger until the test ends."""
    monkeypatch.setattr(namespaces.NamespaceTopic, "_put", put)
    for module in (
        namespaces,
        healing,
        user_partitions,
        partitions,
        stream,
        user_topics,
        election,
        followed,
        *_of_shard(),
    ):
        for name, made in in_place_of(module).items():
            monkeypatch.setattr(module, name, made)


def _of_shard() -> list[ModuleType]:
    return [import_module(f"{shard.__name__}.{one.name}") for one in iter_modules(shard.__path__)]
