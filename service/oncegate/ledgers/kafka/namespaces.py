"""Keeps the list of namespaces in the compacted topic PREFIX.namespaces.

    n/NAMESPACE                   its ledger's id, what the names of its topics begin with, its wrapped key
    g/TOPICS/NUMBER               the highest generation of transactional ids that was taken, and that is proved
    w/TOPICS/NUMBER/GENERATION    the witness: where the ledger of that generation ended, at least
    o/                            the gateway that is to own the ledgers below this prefix
    b/GATEWAY                     the beats of a gateway that is: one a second, the last of them a goodbye

Whoever changes n/, g/ or o/ starts the transactional id PREFIX.namespaces, reads to the end, decides and commits: two
that do so at once never decide on the same list. Witnesses and beats are written without it; a key has one writer.
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

# Of the topic of lanes, for ever: an open transaction holds up who asks of the lanes of its partition, and no others.
DIRECT_PARTITIONS = 4


class KafkaNamespace(msgspec.Struct, frozen=True):
    """Lists a namespace. `topics`: what the names of its topics begin with; `number`: of those that had its name.

    `key`: its secret key, wrapped. `deleted`: it is forgotten, and its topics stay. `direct`: it has a topic of lanes,
    which those that were made before there were lanes get when they are opened next.
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
        """Returns the name of its generations and witnesses, and the prefix of its transactional ids."""
        return f"{self.topics}/{self.number}"


def list_topic(prefix: str) -> str:
    """Returns the topic of a prefix's list, which is also the transactional id of those that change it."""
    return f"{prefix}.namespaces"


def topics_of_name(prefix: str, namespace: str) -> str:
    """Returns the common beginning of the names of a namespace's topics."""
    return f"{prefix}.{namespace}"


def topic_names(one: KafkaNamespace) -> tuple[str, str, str, str]:
    """Returns the topics of a namespace: frames, states, outputs and stages."""
    base, suffix = one.topics, f".{one.number}" if one.number > 1 else ""
    return f"{base}.ledger{suffix}", f"{base}.states{suffix}", f"{base}.outputs{suffix}", f"{base}.stages{suffix}"


def direct_topic(one: KafkaNamespace) -> str:
    """Returns the topic to which clients commit the records of a namespace's lanes."""
    return f"{one.topics}.direct" + (f".{one.number}" if one.number > 1 else "")


def lane_ids(one: KafkaNamespace) -> str:
    """Returns the prefix of the transactional ids of a namespace's lanes; a lane's number follows."""
    return f"{one.name}/direct/"


class Generation(msgspec.Struct, frozen=True):
    """Counts generations of transactional ids: `holder` took `highest`; all before `proved` are ended for good."""

    highest: int = 0
    holder: bytes = b""
    proved: int = 0


@dataclass
class KafkaListed(Listed[KafkaNamespace]):
    """Holds the list up to where it was read; `generations` and `witnesses` by the namespace's `name`."""

    NAMESPACE = KafkaNamespace

    generations: dict[str, Generation] = field(default_factory=dict)
    witnesses: dict[str, dict[int, End]] = field(default_factory=dict)

    def generation(self, name: str) -> Generation:
        """Returns the generations of a namespace's ids: all zeros if it has none."""
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
    """Keeps the list in a compacted topic. Use `close` last."""

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
        """Reads the list for the first time, past what somebody has left open there; LedgerFull, and as `refresh`."""
        async with healing(self._settings, [self.partition]) as markers:
            is_open = await markers.is_open()
        if is_open:
            await self.change(lambda _: [])
        return await self.refresh()

    async def refresh(self) -> KafkaListed:
        """Reads to the end; KafkaError, OSError, TimeoutError: `listed` keeps what was read. LedgerDamaged."""
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
        """Starts the producer; heals open transactions of this id before its epoch is raised, and after."""
        async with healing(self._settings, [self.partition]) as markers:
            await markers.heal([guard.transactional_id])
            await guard.start()
            await markers.heal([guard.transactional_id])

    async def witness(self, name: str, generation: int, seen: End) -> None:
        """Writes the witness of a generation; KafkaError, OSError, TimeoutError: unknown whether it is written."""
        await self._put(f"w/{name}/{generation}", msgspec.json.encode(seen))

    async def forget_witness(self, name: str, generation: int) -> None:
        """Removes the witness of a superseded generation; errors as `witness`."""
        await self._put(f"w/{name}/{generation}", None)

    async def beat(self, gateway: str, beat: Beat | None) -> None:
        """Writes the beat of a gateway, or removes it if None; errors as `witness`."""
        await self._put(f"b/{gateway}", None if beat is None else msgspec.json.encode(beat))

    async def _put(self, key: str, value: bytes | None) -> None:
        with self._watch.telling():
            async with asyncio.timeout(self._deadlines.send_ms / 1000):
                (encoded,) = record_batches([(key.encode(), value)])
                producer = await self._connected()
                try:
                    await (await producer.send(Batch(self.partition, encoded)))
                except BaseException:
                    # What it has queued is not to be written behind what comes later.
                    await uncancelled(self._drop(producer))
                    raise

    async def _drop(self, producer: Producer) -> None:
        """Closes the producer; the next put makes another."""
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
