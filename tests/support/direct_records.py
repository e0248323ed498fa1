"""A gateway whose ledger has lanes. Their records are kept in memory, and tests commit them as clients do."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from oncegate.core.errors import LedgerDamaged, LedgerFull
from oncegate.engine.producer_requests import LaneOpening, LaneQuestion
from oncegate.ports import LanePlace, OpenLedger, TopicsElsewhere
from tests.support.memory_gateway import GatedLedgers, Served, serving

LEDGER = bytes(range(16))
Spans = Sequence[tuple[int, int]]


def record(lane: int, *spans: tuple[int, int], ledger: bytes = LEDGER, version: int = 1) -> bytes:
    """Encodes the record of a client's commit by hand."""
    head = struct.pack(">B16sQI", version, ledger, lane, len(spans))
    return head + b"".join(struct.pack(">QQ", *span) for span in spans)


class RecordsInMemory:
    """`ports.DirectRecords` in memory.

    While `gate` is cleared, a transaction is open at the end of each partition. `reads` lists the read positions,
    `trims` the requested deletions. If `full` is set, the next read is refused.
    """

    def __init__(self, partitions: int = 2) -> None:
        self.partitions = partitions
        self.logs: list[list[bytes]] = [[] for _ in range(partitions)]
        self.low = [0] * partitions
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads: list[tuple[int, int]] = []
        self.trims: list[Mapping[int, int]] = []
        self.full = False

    def commit(self, lane: int, *spans: tuple[int, int]) -> None:
        """Commits a record as the client that owns this lane does."""
        self.logs[lane % self.partitions].append(record(lane, *spans))

    def place(self, lane: int, partition: int) -> LanePlace:
        return LanePlace(LEDGER, "brokers:9092", "p.default.direct", partition, f"p.default/1/direct/{lane}")

    async def read(self, partition: int, first: int) -> Sequence[tuple[int, bytes]]:
        self.reads.append((partition, first))
        end = len(self.logs[partition])
        await self.gate.wait()
        if self.full:
            self.full = False
            raise LedgerFull("it cannot be read now; nothing is known")
        if self.low[partition] > first or end < first:
            raise LedgerDamaged("records are gone")
        return list(enumerate(self.logs[partition]))[first:end]

    async def trim(self, before: Mapping[int, int]) -> None:
        self.trims.append(before)
        for partition, offset in before.items():
            self.low[partition] = offset


class LedgersWithLanes(GatedLedgers):
    """`GatedLedgers` with lanes, where only an append detects a newer owner."""

    def __init__(self) -> None:
        super().__init__()
        self.fenced_by_appends = True
        self.records = RecordsInMemory()

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        async with super().open(namespace) as opened:
            yield replace(opened, topics=TopicsElsewhere(direct=self.records))


class DirectLanes:
    """Short names for client requests about lanes, for topic "t" and producer "p", which is lane 1."""

    def __init__(self, served: Served, records: RecordsInMemory) -> None:
        self.served, self.records = served, records

    @property
    def disk(self) -> Any:
        return self.served.disk

    def counted(self, *names: str) -> list[int]:
        """Returns counters by name."""
        journal = self.served.shard.journal
        counters = journal.counts.all(journal.index)
        return [counters[name] for name in names]

    async def open(self, topic: str = "t", producer: str = "p", source_id: str | None = None) -> LaneOpening:
        return await self.served.shard.direct.open(topic, producer, self.served.deadline(), source_id)

    async def ask(
        self,
        first: int,
        last: int,
        topic: str = "t",
        producer: str = "p",
        timeout_ms: int | None = None,
        acked: int | None = None,
        topic_id: bytes | None = None,
    ) -> list[list[int]]:
        """Returns the sequences that the gateway reports as written."""
        question = LaneQuestion(topic, producer, first, last, acked, topic_id)
        answer = await self.served.shard.direct.ask(question, self.served.deadline(timeout_ms))
        found: list[list[int]] = answer.duplicates.tolist()
        return found


@asynccontextmanager
async def direct_lanes(ledgers: LedgersWithLanes | None = None, **limits: Any) -> AsyncIterator[DirectLanes]:
    """Opens a gateway with lane 1, over new ledgers or over those of an earlier gateway."""
    ledgers = LedgersWithLanes() if ledgers is None else ledgers
    async with serving(ledgers, **limits) as served:
        found = DirectLanes(served, ledgers.records)
        await found.open()
        served.disk.appends.clear()
        yield found
