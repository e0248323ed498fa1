"""Rows that gateways of a walk send to users' topics: the readable rows compared with every answer."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.frames import Frame, Sent
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.rows.user_topics import SUSPENDED_S, UserTopics
from oncegate.ledgers.kafka.shard.ledger import KafkaLedger
from oncegate.ports import DropRanges, SendRanges, WriteRange
from tests.model.kafka.brokers import COMMITTED, OPEN, Brokers, Entry
from tests.model.kit.replies import Broken

if TYPE_CHECKING:
    from tests.model.kafka.gateways import Gateway

TOPICS = ("u", "v")
USERS = tuple(Partition(topic, number) for topic in TOPICS for number in range(2))
ROWS = tuple(b"row-%02d" % number for number in range(40))
# Prefixes of equal length except for the first. A send or drop has its own suffix beside that of its value.
STAGE, SEND, DROP = b"stage ", b"send ", b"drop "
NONCE = bytes(12)


def row_of(value: bytes) -> bytes:
    """Returns the row of a value; each delivery of a row has another suffix."""
    return value.partition(b"/")[0]


def topic_of(value: bytes) -> str:
    return TOPICS[row_of(value)[-1] % len(TOPICS)]


def range_of(value: bytes) -> WriteRange:
    """Returns a value as a request brings it."""
    batch, sink = batch_of(value), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return WriteRange(sha256(value).digest()[:16], "s", 1, sink.getvalue().to_pybytes())


@cache
def batch_of(value: bytes) -> "pa.RecordBatch":
    return pa.record_batch({"value": pa.array([value], pa.binary())})


@dataclass
class UsersTruth:
    """Reads users' topics. `told`: values, and whether their append was definitely refused."""

    brokers: Brokers
    told: dict[bytes, bool] = field(default_factory=dict)
    named: Counter[Partition] = field(default_factory=Counter)

    def look(self) -> None:
        there = Counter(entry.value for partition in USERS for entry in self._promised(partition))
        rows = Counter(row_of(value or b"") for value in there.elements())
        if twice := [row for row, count in rows.items() if count > 1]:
            raise Broken("TWICE", f"{twice} are there more than once")
        for value, was_refused in self.told.items():
            if was_refused and there[value]:
                raise Broken("REFUSED", f"{value!r} is there, and was refused")
            if not was_refused and not there[value]:
                raise Broken("LOST", f"{value!r} is acknowledged, and not there")

    def _promised(self, partition: Partition) -> list[Entry]:
        return [entry for entry in self.brokers.log(partition).entries if entry.is_promised]

    def hear(self, value: bytes, refused: bool, is_staged: bool) -> None:
        """Records an answer. A refused stage may be sent again by another gateway."""
        if not (refused and is_staged):
            self.told[value] = refused
        self.look()

    def take(self, frame: Frame) -> None:
        for change in frame.body.changes:
            if isinstance(change, Sent):
                partition = Partition(change.topic, change.partition)
                self.named[partition] += change.records
                if (
                    change.first_offset >= 0
                    and not self.brokers.log(partition).entries[change.first_offset].is_promised
                ):
                    raise Broken("NAMED", f"frame {frame.serial} names {change}, which is not there")

    def require_named(self) -> None:
        """Checks the rows at the end, when only transactions are open that no owner can know."""
        for partition in USERS:
            found = self._promised(partition)
            if len(found) != self.named[partition]:
                raise Broken("NAMED", f"frames name {self.named[partition]} rows of {partition}, it has {len(found)}")
            if any(entry.state not in (COMMITTED, OPEN) for entry in found):
                raise Broken("LOST", f"rows of {partition} are aborted that were committed")


class Sender:
    """Sends a gateway's rows to users' topics."""

    def __init__(self, gateway: "Gateway", topics: UserTopics) -> None:
        self._gateway, self._topics = gateway, topics
        self._world = gateway.world

    async def send(self, ledger: KafkaLedger) -> None:
        """Sends one to three rows directly."""
        values = [self._new() for _ in range(self._world.rng.choice((1, 1, 2, 3)))]
        fresh = {row_of(value): value for value in values if not self._gateway.knows(SEND + row_of(value))}
        taken = [value for value in fresh.values() if await self._admits(value)]
        if not taken:
            await self._gateway.process.turn("has nothing to send")
            return
        ranges = [range_of(value) for value in taken]
        sends = [SendRanges(topic_of(value), (one.range_id,)) for value, one in zip(taken, ranges, strict=True)]
        await self._append(ledger, taken, [SEND + value + b"/" + self._nonce() for value in taken], [*ranges, *sends])

    async def stage(self, ledger: KafkaLedger) -> None:
        """Stages a row."""
        value = self._new()
        if await self._admits(value):
            await self._gateway.append(ledger, [STAGE + value], [range_of(value)])

    async def publish(self, ledger: KafkaLedger) -> None:
        """Publishes staged rows, or drops one whose row has already been sent."""
        known = sorted(self._gateway.known)
        gone = {one[len(SEND) : -len(NONCE) - 1] for one in known if one.startswith((SEND, DROP))}
        staged = [one.removeprefix(STAGE) for one in known if one.startswith(STAGE)]
        waiting = [value for value in staged if value not in gone]
        if not waiting:
            await self.stage(ledger)
            return
        value = self._world.rng.choice(waiting)
        range_ids = (range_of(value).range_id,)
        if self._gateway.knows(SEND + row_of(value)):
            await self._gateway.append(ledger, [DROP + value + b"/" + self._nonce()], [DropRanges(range_ids)])
        elif await self._admits(value):
            entry = SEND + value + b"/" + self._nonce()
            await self._append(ledger, [value], [entry], [SendRanges(topic_of(value), range_ids)])

    def _new(self) -> bytes:
        return self._world.rng.choice(ROWS) + b"/" + self._nonce()

    def _nonce(self) -> bytes:
        return self._world.rng.randbytes(6).hex().encode()

    async def _append(
        self,
        ledger: KafkaLedger,
        values: list[bytes],
        entries: list[bytes],
        changes: list[WriteRange | SendRanges],
    ) -> None:
        refused_before = len(self._gateway.process.refused)
        try:
            await self._gateway.append(ledger, entries, changes, values)
        finally:
            self._require_left_alone(refused_before)

    def _require_left_alone(self, refused_before: int) -> None:
        """Checks that a topic refused now was not refused a moment ago."""
        refused = self._gateway.process.refused
        for topic, at_s in refused[refused_before:]:
            for other, before_s in refused[:refused_before]:
                if topic == other and topic in TOPICS and at_s < before_s + SUSPENDED_S and self._is_since(before_s):
                    raise Broken("ALONE", f"{topic} refuses a group at {at_s:.2f}, and did at {before_s:.2f}")

    def _is_since(self, at_s: float) -> bool:
        """Returns whether this owner met that refusal."""
        return at_s >= self._gateway.owned_s

    async def _admits(self, value: bytes) -> bool:
        """Checks a row as the engine does before it accepts it."""
        topic, batch = topic_of(value), batch_of(value)
        try:
            await self._topics.check(topic, batch.schema, [batch])
        except LedgerFull as error:
            self._world.note(f"{self._gateway.process.name}: {value!r} is not taken: {error.detail}")
            if "asked about" not in error.detail and "have no leader" not in error.detail:
                self._require_refused(topic)
            return False
        return True

    def _require_refused(self, topic: str) -> None:
        if not any(one == topic and self._is_since(at_s) for one, at_s in self._gateway.process.refused):
            raise Broken("ALONE", f"{topic} is left alone, and has refused nothing")
