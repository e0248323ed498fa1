"""A gateway over the memory ledger whose appends a test can block. Time passes only on the fake clock."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa

from oncegate.core.entries.codec import decode
from oncegate.core.entries.kinds import Entry, Name
from oncegate.core.errors import LedgerFenced, LedgerFull
from oncegate.core.lifecycle import EndCell
from oncegate.core.verdicts import BY_BYTE
from oncegate.engine.counts.duplicate_log import DuplicateLogs
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.namespace import Namespace
from oncegate.engine.quotas import Tenant
from oncegate.engine.requests import (
    NO_SENDER,
    AbortRequest,
    ClaimRequest,
    ClaimResult,
    CommitRequest,
    ProduceRequest,
    Rows,
    Sender,
    StageRequest,
    StageResult,
    Winner,
)
from oncegate.engine.shard import Shard
from oncegate.hashing.rows import EMPTY, add
from oncegate.ledgers.memory import MemoryLedgers
from oncegate.ports import Chunk, DuplicateTopic, Ledger, Mark, OpenLedger, OutputChange, Outputs, Replayed, Storage
from oncegate.runs import MemoryRunFolders
from oncegate.testing import FakeClock

# The sender of the requests that the helpers make.
SENDER: ContextVar[Sender] = ContextVar("sender", default=NO_SENDER)
T = TypeVar("T")
TURNS = 50


class _Turn:
    def __await__(self) -> Any:
        yield


async def run_ready_tasks(count: int = TURNS) -> None:
    """Runs the event loop until every task that can run without time passing has run."""
    for _ in range(count):
        await _Turn()


async def wait_until(condition: Any) -> None:
    """Runs the event loop, and lets other threads work, until `condition()` is true."""
    async with asyncio.timeout(60):
        while not condition():
            await _Turn()


class Disk:
    """The disk below the ledger. After `hold`, appends wait for `release`. `faults` lists the faults of the next
    appends.

    Faults: "full" is a definite refusal; "fenced" a newer owner; "lost" an unknown outcome with nothing written; "kept"
    an unknown outcome with everything written; "" none.
    """

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.faults: list[str] = []
        self.collect_gate = asyncio.Event()
        self.collect_gate.set()
        self.collect_faults: list[str] = []
        self.appends: list[list[Entry]] = []
        self.under_way = 0
        self.free_bytes = (1, 1)
        self.opened = 0
        self.refuse_to_open: Exception | None = None

    def hold(self) -> None:
        self.gate.clear()

    async def release(self) -> None:
        self.gate.set()
        await run_ready_tasks()

    def kinds(self) -> list[list[str]]:
        """Returns the entries of each append by the names of their classes."""
        return [[type(entry).__name__ for entry in group] for group in self.appends]


class GatedLedger:
    """`ports.Ledger` and `ports.Outputs` over another ledger; each append passes through the disk."""

    def __init__(self, good: Ledger, outputs: Outputs, disk: Disk) -> None:
        self._good, self._outputs, self._disk = good, outputs, disk

    @property
    def mark(self) -> Mark:
        return self._good.mark

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        disk = self._disk
        assert disk.under_way == 0, "one append at a time"
        disk.under_way += 1
        disk.appends.append([decode(entry) for entry in entries])
        try:
            await disk.gate.wait()
            fault = disk.faults.pop(0) if disk.faults else ""
            if fault == "full":
                raise LedgerFull("no space left on device")
            if fault == "fenced":
                raise LedgerFenced("a newer owner has opened this ledger; nothing was written")
            if fault != "lost":
                await self._good.append(entries, outputs)
            if fault:
                raise OSError(5, "Input/output error")
        finally:
            disk.under_way -= 1
        return self._good.mark

    def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        return self._good.replay(from_position)

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        return await self._outputs.fetch(topic, partition, offset, max_rows, max_bytes)

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        disk = self._disk
        await disk.collect_gate.wait()
        fault = disk.collect_faults.pop(0) if disk.collect_faults else ""
        if fault == "full":
            raise LedgerFull("no space left on device")
        if fault:
            raise OSError(5, "Input/output error")
        await self._good.compact(position, snapshot)


class GatedLedgers(MemoryLedgers, Storage):
    """`ports.Ledgers` in memory. Its content survives when one gateway over it closes and another opens."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.runs = MemoryRunFolders()
        self.fenced_by_appends = False
        # The end cell of the last opening of each namespace; tests use it to end a ledger outside an append.
        self.ends: WeakValueDictionary[str, EndCell] = WeakValueDictionary()

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        if self.disk.refuse_to_open is not None:
            raise self.disk.refuse_to_open
        async with super().open(namespace) as opened:
            self.disk.opened += 1
            ledger = self.gated(opened)
            # If only appends detect a newer owner, opening a second one does not end the first.
            end = self.ends[namespace] = EndCell() if self.fenced_by_appends else opened.end
            yield replace(opened, ledger=ledger, outputs=ledger, end=end, storage=self)

    def gated(self, opened: OpenLedger) -> GatedLedger:
        assert opened.outputs is not None
        return GatedLedger(opened.ledger, opened.outputs, self.disk)

    def free_bytes(self) -> tuple[int, int]:
        return self.disk.free_bytes


@dataclass
class Events:
    """An observer that records events."""

    seen: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def event(self, name: str, /, **fields: object) -> None:
        self.seen.append((name, fields))

    def names(self) -> list[str]:
        return [name for name, _ in self.seen]


class Served:
    """A gateway under test, with short names for requests to it."""

    def __init__(self, gateway: Gateway, ledgers: GatedLedgers, clock: FakeClock, events: Events) -> None:
        self.gateway, self.ledgers, self.clock, self.events = gateway, ledgers, clock, events
        self.disk = ledgers.disk
        self._tasks: list[asyncio.Task[Any]] = []

    @property
    def namespace(self) -> Namespace:
        return self.gateway.namespace("default")

    @property
    def shard(self) -> Shard:
        return self.namespace.home

    def deadline(self, timeout_ms: int | None = None) -> Deadline:
        return Deadline(self.clock, timeout_ms)

    async def check_next_opening_after(self, pause_ms: int) -> None:
        """Checks that the next attempt to open a ledger is logged as lost after exactly `pause_ms`."""
        await run_ready_tasks()
        self.clock.advance(pause_ms - 1)
        await run_ready_tasks()
        tried = self.events.names().count("ledger_lost")
        self.clock.advance(1)
        await run_ready_tasks()
        assert self.events.names().count("ledger_lost") == tried + 1

    def start(self, asked: "Coroutine[Any, Any, T]") -> "asyncio.Task[T]":
        """Starts a request without waiting for its answer."""
        task = asyncio.create_task(asked)
        self._tasks.append(task)
        return task

    async def begin(self, asked: "Coroutine[Any, Any, T]") -> "asyncio.Task[T]":
        """Starts a request and runs it until it blocks."""
        task = self.start(asked)
        await run_ready_tasks()
        return task

    async def claim(
        self,
        *ids: str,
        token: int = 1,
        call: int = 1,
        lease_ms: int | None = None,
        timeout_ms: int | None = None,
        tenant: Tenant | None = None,
    ) -> ClaimResult:
        namespace = self.namespace
        prints = namespace.fingerprints().of_array(pa.array(ids, pa.string()))
        request = ClaimRequest(id16(token), call, prints, lease_ms, sender=replace(SENDER.get(), tenant=tenant))
        return await namespace.claims.claim(request, self.deadline(timeout_ms))

    async def settle(self, verb: Any, claim: bytes | None, timeout_ms: int | None = None) -> Any:
        assert claim is not None
        return await self.shard.claims.settle(verb, claim, self.deadline(timeout_ms))

    async def stage(
        self,
        rows: Rows,
        name: Name | None = None,
        token: int = 1,
        chunk: int = 0,
        owner: str = "run:1",
        timeout_ms: int | None = None,
    ) -> StageResult:
        sha256 = hashlib.sha256(rows.data).digest()
        fingerprint = reduce(add, map(self.namespace.row_fingerprints.of_batch, rows.batches), EMPTY)
        staged = name if name is not None else BATCH, owner, id16(token), chunk, sha256, rows, fingerprint
        ask = StageRequest(*staged, sender=SENDER.get())
        return await self.namespace.batches.stage(ask, self.deadline(timeout_ms))

    async def commit(
        self,
        *winners: Winner,
        name: Name | None = None,
        run: str | None = "1",
        nonce: int = 1,
        digest: bytes | None = None,
        previous: bytes | None = None,
        first_wins: bool = False,
        timeout_ms: int | None = None,
        reads: bytes | None = None,
    ) -> Any:
        name = name if name is not None else BATCH
        ask = CommitRequest(
            name, run, id16(nonce), winners, digest, previous, first_wins, reads_digest=reads, sender=SENDER.get()
        )
        return await self.namespace.batches.commit(ask, self.deadline(timeout_ms))

    async def abort(self, *tokens: int, name: Name | None = None) -> Any:
        ask = AbortRequest(name if name is not None else BATCH, tuple(map(id16, tokens)))
        return await self.namespace.batches.abort(ask, self.deadline())

    async def produce(self, rows: Rows, topic: str = "topic", call: int = 1, timeout_ms: int | None = None) -> Any:
        request = ProduceRequest(topic, id16(1), call, rows, sender=SENDER.get())
        return await self.namespace.records.produce(request, self.deadline(timeout_ms))

    async def read(self, topic: str = "topic") -> list[int]:
        """Returns the column `n` of all rows of a topic."""
        fetched = await self.namespace.topics.fetch(topic, 0, 0, 1_000_000, 1 << 40)
        return [n for chunk in fetched.chunks for n in pa.ipc.open_stream(chunk.data).read_all()["n"].to_pylist()]

    async def end(self) -> None:
        """Cancels the requests that a test left waiting."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def serving(
    ledgers: GatedLedgers | None = None,
    duplicates: DuplicateTopic | None = None,
    clock: FakeClock | None = None,
    **limits: Any,
) -> AsyncIterator[Served]:
    """Opens a gateway over new ledgers, or over those of an earlier one. `duplicates`: the topic where duplicates are
    logged."""
    ledgers = ledgers if ledgers is not None else GatedLedgers()
    clock, events, known = clock or FakeClock(), Events(), Limits(**limits)
    async with AsyncExitStack() as stack:
        logs = None
        if duplicates is not None:
            logs = DuplicateLogs(duplicates, clock, events, known.duplicate_records_per_second)
            stack.push_async_callback(logs.close)
        opened = open_gateway(ledgers, ledgers.runs, clock, events, known, duplicates=logs)
        gateway = await stack.enter_async_context(opened)
        ledgers.disk.appends.clear()
        served = Served(gateway, ledgers, clock, events)
        try:
            yield served
        finally:
            ledgers.disk.gate.set()
            ledgers.disk.faults.clear()
            ledgers.disk.collect_gate.set()
            await served.end()


BATCH = Name("query", "5", "topic")


def id16(number: int) -> bytes:
    return number.to_bytes(16, "big")


def rows_of(*numbers: int, column: str = "n", kind: Any = None) -> Rows:
    """Returns rows as a transport passes them to the engine."""
    batch = pa.record_batch({column: pa.array(numbers, pa.int64() if kind is None else kind)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return Rows(batch.schema, [batch], batch.num_rows, sink.getvalue().to_pybytes())


def winner(answer: StageResult, token: int = 1, chunks: int = 1) -> Winner:
    return Winner(id16(token), chunks, answer.rows, answer.fingerprint)


def verdicts_of(answer: ClaimResult) -> list[str]:
    """Returns the verdicts as words such as `GRANTED` or `GRANTED+TAKEOVER`."""
    rows = [BY_BYTE[int(byte)] for byte in np.asarray(answer.verdicts)]
    return [row.verdict.name + "".join(f"+{flag.name}" for flag in row.flags) for row in rows]
