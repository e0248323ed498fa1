"""An engine over a real log ledger that can be killed between two requests, and a record of what really happened.

A kill copies the data folder and its witness, sometimes with a torn append after the last segment, and opens the copy:
the state that the operating system keeps when a process dies. Replies may be lost; then the record knows less than the
gateway, as a client would.
"""

import asyncio
import hashlib
import random
import shutil
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.entries.kinds import Name
from oncegate.core.errors import OncegateError
from oncegate.core.verdicts import VERDICT_MASK, Verdict
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.requests import (
    ClaimRequest,
    CommitRequest,
    CommitResult,
    ProduceRequest,
    Rows,
    StageRequest,
    Winner,
)
from oncegate.engine.usecases.partitioning import stream
from oncegate.ledgers import open_ledgers
from oncegate.runs import run_folders
from oncegate.testing import FakeClock
from tests.support.leaving import copy_as_left
from tests.support.memory_gateway import run_ready_tasks

LEASE_MS = 1_000


class Quiet:
    """An observer that records event names."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def event(self, name: str, /, **fields: object) -> None:
        self.events.append(name)


class World:
    """A gateway that is killed and restarted. Every request runs to its end on one loop."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random, self.life = folder, random.Random(seed), 0
        self.clock, self.runner = FakeClock(), asyncio.Runner()
        self._start()

    def _start(self) -> None:
        self.stack = AsyncExitStack()
        self.gateway: Gateway = self.runner.run(self._open())

    async def _open(self) -> Gateway:
        place = f"log:{self.folder / str(self.life)}"
        ledgers = await self.stack.enter_async_context(open_ledgers(place, create=self.life == 0))
        limits = Limits(hot_ids=0, seal_bytes=16)
        return await self.stack.enter_async_context(
            open_gateway(ledgers, run_folders(place), self.clock, Quiet(), limits)
        )

    def kill(self, torn_bytes: int) -> None:
        """Continues from a copy of the current files, with `torn_bytes` of an unacknowledged append at the end."""
        old, new = self.folder / str(self.life), self.folder / str(self.life + 1)
        copy_as_left(old, new)
        copy_as_left(old.with_name(old.name + ".witness"), new.with_name(new.name + ".witness"))
        if torn_bytes:
            last = max((new / "default" / "0").glob("*.seg"))
            with last.open("ab") as segment:
                segment.write(self.random.randbytes(torn_bytes))
        self.close_gateway()
        shutil.rmtree(old)
        self.life += 1
        self._start()

    def close_gateway(self) -> None:
        self.runner.run(self.stack.aclose())

    def close(self) -> None:
        self.close_gateway()
        self.runner.close()

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock)

    def claim(self, token: bytes, call: int, ids: list[str]) -> tuple[bytes | None, list[Verdict]]:
        namespace = self.gateway.namespace("default")
        prints = namespace.fingerprints().of_array(pa.array(ids))
        answer = self.runner.run(namespace.claims.claim(ClaimRequest(token, call, prints, LEASE_MS), self.deadline))
        return answer.claim, [Verdict(int(byte) & VERDICT_MASK) for byte in np.asarray(answer.verdicts)]

    def produce(self, token: bytes, call: int, ids: list[str]) -> list[Verdict]:
        """Produces rows that consist of their id to the topic `rows`."""
        namespace = self.gateway.namespace("default")
        batch = pa.record_batch([pa.array(ids)], names=["value"])
        rows = Rows(batch.schema, [batch], len(ids), stream(batch.schema, [batch]))
        ask = ProduceRequest("rows", token, call, rows, namespace.fingerprints().of_array(batch.column(0)))
        answer = self.runner.run(namespace.records.produce(ask, self.deadline))
        return [Verdict(int(byte) & VERDICT_MASK) for byte in np.asarray(answer.verdicts)]

    def compact(self) -> None:
        """Replaces all entries so far by a snapshot of the index, and waits for that."""
        self.runner.run(self._compact())

    async def _compact(self) -> None:
        namespace = self.gateway.namespace("default")
        await namespace.home.group_commit.all_durable()
        namespace.home.snapshotter.compact(namespace.home.scheduler.save)
        async with asyncio.timeout(20):
            while namespace.home.snapshotter.compacting:
                await run_ready_tasks(1)

    def seal(self) -> int:
        """Seals old ids whose claims can no longer be named. Returns the number of sealed ids."""
        return self.runner.run(self._evict())

    async def _evict(self) -> int:
        namespace = self.gateway.namespace("default")
        await namespace.home.group_commit.all_durable()
        namespace.home.eviction.step()
        async with asyncio.timeout(20):
            while namespace.home.eviction.working:
                await run_ready_tasks(1)
        return namespace.home.counters()["cold_ids"]

    def settle(self, verb: Verb, claim: bytes) -> tuple[ClaimState, int, int] | OncegateError:
        try:
            answer = self.runner.run(self.gateway.namespace("default").claims.settle(verb, claim, self.deadline))
        except OncegateError as error:
            return error
        return answer.state, answer.settled, answer.taken_over

    def stage(self, name: Name, owner: str, values: list[str]) -> Winner:
        """Stages one chunk under a new token."""
        batch = pa.record_batch([pa.array(values)], names=["value"])
        data, token = stream(batch.schema, [batch]), self.random.randbytes(16)
        rows = Rows(batch.schema, [batch], len(values), data)
        namespace = self.gateway.namespace("default")
        fingerprint = namespace.row_fingerprints.of_batch(batch)
        ask = StageRequest(name, owner, token, 0, hashlib.sha256(data).digest(), rows, fingerprint)
        answer = self.runner.run(namespace.batches.stage(ask, self.deadline))
        return Winner(token, 1, answer.rows, answer.fingerprint)

    def commit(
        self, name: Name, run: str, nonce: bytes, winners: list[Winner], digest: bytes | None
    ) -> CommitResult | OncegateError:
        ask = CommitRequest(name, run, nonce, tuple(winners), digest, None, False)
        try:
            return self.runner.run(self.gateway.namespace("default").batches.commit(ask, self.deadline))
        except OncegateError as error:
            return error

    def read(self, topic: str) -> list[str]:
        """Returns every readable row in the order of offsets."""
        namespace = self.gateway.namespace("default")
        if topic not in namespace.home.journal.index.topics.names():
            return []
        fetched = self.runner.run(namespace.topics.fetch(topic, 0, 0, 1_000_000, 1 << 40))
        tables = [pa.ipc.open_stream(chunk.data).read_all() for chunk in fetched.chunks]
        return [value for table in tables for value in table.column("value").to_pylist()]
