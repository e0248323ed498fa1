"""Stores the list of namespaces in the compacted topic PREFIX.namespaces.

    n/NAMESPACE                   its ledger's id, the prefix of its topic names, its wrapped key
    g/TOPICS/NUMBER               the highest allocated and the highest proved generation of transactional ids
    w/TOPICS/NUMBER/GENERATION    the rollback check: a lower bound of the end of that generation's ledger
    o/                            the gateway elected to own the ledgers of this prefix
    b/GATEWAY                     heartbeats of a running gateway: one a second, and a last one when it stops

A change of n/, g/ or o/ starts the transactional id PREFIX.namespaces, reads to the end, decides and commits. Two
concurrent changes therefore never decide on the same list. Rollback checks and heartbeats are written without the
transactional id; each key has a single writer.
"""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.frames import End
from oncegate.ledgers.kafka.markers.healing import healing
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.reading import Reader, Record
from oncegate.ledgers.kafka.record_batch import record_batches
from oncegate.ledgers.kafka.transactions.ends import InDoubt, NotWritten
from oncegate.ledgers.kafka.transactions.guard import Guard
from oncegate.ledgers.kafka.transactions.producer import Producer
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Deadlines, Watch
from oncegate.ledgers.server.holders import Beat
from oncegate.ledgers.server.namespaces import Decide, Listed, NamespaceList
from oncegate.ledgers.uncancelled import uncancelled

# Partitions of the lane topic; never changes. An open transaction blocks reads of the lanes in its own partition only.
DIRECT_PARTITIONS = 4


class KafkaNamespace(msgspec.Struct, frozen=True):
    """A namespace's entry in the list.

    `topics`: prefix of its topic names. `key`: its secret key, wrapped. `number`: counts the namespaces that have had
    this name. `deleted`: it is gone, but its topics are kept. `direct`: it has a lane topic; a namespace that predates
    lanes gets one when it is next opened.
    """

    ledger: bytes
    topics: str
    key: bytes
    number: int = 1
    deleted: bool = False
    format: int = 1
    direct: bool = False

    @property
    def name(self) -> str:
        """Returns the namespace's name in the record keys g/ and w/,
        which is also the prefix of its transactional ids.
        """
        return f"{self.topics}/{self.number}"


def list_topic(prefix: str) -> str:
    """Returns the topic that stores a prefix's list of namespaces;
    its name is also the transactional id of its writers.
    """
    return f"{prefix}.namespaces"


def topics_of_name(prefix: str, namespace: str) -> str:
    """Returns the common prefix of a namespace's topic names."""
    return f"{prefix}.{namespace}"


def topic_names(one: KafkaNamespace) -> tuple[str, str, str, str]:
    """Returns the names of a namespace's four topics: frames, states, outputs and stages."""
    base, suffix = one.topics, f".{one.number}" if one.number > 1 else ""
    return f"{base}.ledger{suffix}", f"{base}.states{suffix}", f"{base}.outputs{suffix}", f"{base}.stages{suffix}"


def direct_topic(one: KafkaNamespace) -> str:
    """Returns a namespace's lane topic, to which clients commit the records of its lanes (numbered streams of one
    writer).
    """
    return f"{one.topics}.direct" + (f".{one.number}" if one.number > 1 else "")


def lane_ids(one: KafkaNamespace) -> str:
    """Returns the common prefix of the transactional ids of a namespace's lanes; each id ends with the lane number."""
    return f"{one.name}/direct/"


class Generation(msgspec.Struct, frozen=True):
    """Generations of transactional ids: `holder` allocated `highest`; all before `proved` are permanently fenced."""

    highest: int = 0
    holder: bytes = b""
    proved: int = 0


@dataclass
class KafkaListed(Listed[KafkaNamespace]):
    """The list of namespaces as it was last read; `generations` and `witnesses` are keyed by the namespace's `name`."""

    NAMESPACE = KafkaNamespace

    generations: dict[str, Generation] = field(default_factory=dict)
    witnesses: dict[str, dict[int, End]] = field(default_factory=dict)

    def generation(self, name: str) -> Generation:
        """Returns the generations of a namespace; all zeros if it has none."""
        return self.generations.get(name, Generation())

    def take_own(self, kind: str, name: str, value: bytes | None) -> bool:
        if kind == "g" and value is not None:
            self.generations[name] = msgspec.json.decode(value, type=Generation)
        elif kind == "w":
            name, _, generation = name.rpartition("/")
            seen = self.witnesses.setdefault(name, {})
            if value is None:
                seen.pop(int(generation), None)
            else:
                seen[int(generation)] = msgspec.json.decode(value, type=End)
        else:
            return False
        return True


class NamespaceTopic(NamespaceList[KafkaListed]):
    """The list of namespaces, stored in a compacted topic. Call `close` last."""

    OVERTAKEN = (NotWritten, InDoubt)
    AWAY = (KafkaError, OSError, TimeoutError)
    EFFECT = "nothing was written"
    SERVERS = "the brokers"

    def __init__(self, settings: Mapping[str, Any], prefix: str, deadlines: Deadlines) -> None:
        super().__init__(KafkaListed())
        self._settings = settings
        self.partition = Partition(list_topic(prefix), 0)
        self._deadlines = deadlines
        self._reading, self._connecting = asyncio.Lock(), asyncio.Lock()
        self._reader = Reader(settings)
        self._witnesses: Producer | None = None
        self._next = 0
        self._watch = Watch(settings)

    async def close(self) -> None:
        await self._reader.stop()
        async with self._connecting:
            producer, self._witnesses = self._witnesses, None
        if producer is not None:
            await producer.drop()

    async def begin(self) -> KafkaListed:
        """Ends any transaction left open in the topic, then reads the list for the first time.

        Raises LedgerFull, and as `refresh`.
        """
        async with healing(self._settings, [self.partition]) as markers:
            is_open = await markers.is_open()
        if is_open:
            await self.change(lambda _: [])
        return await self.refresh()

    async def refresh(self) -> KafkaListed:
        """Reads the list to its end.

        Raises LedgerDamaged; KafkaError, OSError, TimeoutError: `listed` keeps the records read so far.
        """
        async with self._reading:
            _, end = await self._reader.bounds(self.partition)
            async with aclosing(self._reader.records(self.partition, self._next, end)) as records:
                async for record in records:
                    self._take(record)
            self._next = end
            return self.listed

    def _take(self, record: Record) -> None:
        try:
            self.listed.take((record.key or b"").decode(), record.value)
        except ValueError as error:
            raise LedgerDamaged(
                f"topic {self.partition.topic}, offset {record.offset}: not a record of a list of namespaces that this "
                f"version reads ({error}); nothing was changed"
            ) from error

    async def _change(self, decide: Decide[KafkaListed]) -> None:
        guard = Guard(self._settings, self.partition.topic, self._deadlines)
        try:
            await self._start(guard)
            changes = decide(await self.refresh())
            if changes:
                encoded = [(key.encode(), msgspec.json.encode(value)) for key, value in changes]
                await guard.commit([Batch(self.partition, one) for one in record_batches(encoded)])
                await self.refresh()
        finally:
            await guard.close()

    async def _start(self, guard: Guard) -> None:
        """Starts the producer, and repairs hanging transactions of its id before and after its epoch is raised."""
        async with healing(self._settings, [self.partition]) as markers:
            await markers.heal([guard.transactional_id])
            await guard.start()
            await markers.heal([guard.transactional_id])

    async def witness(self, name: str, generation: int, seen: End) -> None:
        """Writes a generation's record for the rollback check.

        Effect unknown when KafkaError, OSError or TimeoutError is raised.
        """
        await self._put(f"w/{name}/{generation}", msgspec.json.encode(seen))

    async def forget_witness(self, name: str, generation: int) -> None:
        """Removes a superseded generation's record for the rollback check. Raises as `witness`."""
        await self._put(f"w/{name}/{generation}", None)

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes a gateway's heartbeat; None removes it. Raises as `witness`."""
        await self._put(f"b/{gateway}", None if beat is None else msgspec.json.encode(beat))

    async def _put(self, key: str, value: bytes | None) -> None:
        with self._watch.telling():
            async with asyncio.timeout(self._deadlines.send_ms / 1000):
                (encoded,) = record_batches([(key.encode(), value)])
                producer = await self._connected()
                try:
                    await (await producer.send(Batch(self.partition, encoded)))
                except BaseException:
                    # Records still queued must not be written after later ones.
                    await uncancelled(self._drop(producer))
                    raise

    async def _drop(self, producer: Producer) -> None:
        """Closes the producer; the next `_put` creates a new one."""
        async with self._connecting:
            if self._witnesses is producer:
                self._witnesses = None
        await producer.drop()

    async def _connected(self) -> Producer:
        async with self._connecting:
            if self._witnesses is None:
                producer = Producer(self._watch, self._settings)
                try:
                    await producer.start()
                except BaseException:
                    await producer.drop()
                    raise
                self._witnesses = producer
            return self._witnesses
