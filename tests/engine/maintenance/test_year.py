"""A year of virtual time over the embedded ledger: ids are forgotten on time, and disk and memory stay bounded."""

import gc
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.core.entries.kinds import Name
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.namespace import Namespace
from oncegate.engine.requests import (
    ClaimRequest,
    CommitRequest,
    ProduceRequest,
    SettingsRequest,
    StageRequest,
    TopicRequest,
)
from oncegate.hashing.rows import EMPTY, add
from oncegate.index import committed_names
from oncegate.index import settings as index_settings
from oncegate.index.lsm.tier import RUNS_MAX
from oncegate.index.settings import BUCKETS_PER_HORIZON
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.files import outputs
from oncegate.ports import Ledgers
from oncegate.runs import LocalRunFolders
from oncegate.testing import FakeClock
from oncegate.testing.ledger_places import replayed
from tests.support.index.claim_index import contents
from tests.support.ledger_tools import QuietDisk
from tests.support.memory_gateway import Events, id16, rows_of, run_ready_tasks, verdicts_of, wait_until, winner

DAY_MS = 86_400_000
HORIZON_MS = 7 * DAY_MS
STEP_MS = HORIZON_MS // BUCKETS_PER_HORIZON
STEPS_A_DAY = DAY_MS / STEP_MS
IDS = 10
# A month of a stream that commits in each bucket is remembered fully; of older names 60 bytes are kept.
NAMES_REMEMBERED = 100
# Less than half of the ids known at any time.
SEALED_FROM = 240


@dataclass
class World:
    gateway: Gateway
    clock: FakeClock
    folder: Path
    events: Events
    ledgers: Ledgers
    step: int = 0
    commits: int = 0
    disk_bytes: list[int] = field(default_factory=list)
    start_bytes: list[int] = field(default_factory=list)
    index_bytes: list[int] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)

    @property
    def namespace(self) -> Namespace:
        return self.gateway.namespace("default")

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock)

    async def claim(self, ids: list[str], token: int) -> list[str]:
        """Claims ids and completes them at once."""
        prints = self.namespace.fingerprints().of_array(pa.array(ids))
        answer = await self.namespace.claims.claim(ClaimRequest(id16(token), 0, prints), self.deadline)
        if answer.claim is not None:
            await self.namespace.claims.settle(Verb.COMPLETE, answer.claim, self.deadline)
        return verdicts_of(answer)

    async def commit(self, batch: int) -> str:
        """Commits a batch of one row by a new run; its input is determined by the batch."""
        self.commits += 1
        name, token, rows = Name("stream", str(batch), "committed"), id16(self.commits), rows_of(batch)
        fingerprint = reduce(add, map(self.namespace.row_fingerprints.of_batch, rows.batches), EMPTY)
        sha256, digest = hashlib.sha256(rows.data).digest(), hashlib.sha256(b"%d" % batch).digest()
        ask = StageRequest(name, "run:1", token, 0, sha256, rows, fingerprint)
        staged = await self.namespace.batches.stage(ask, self.deadline)
        won = winner(staged, self.commits)
        run, nonce = f"run {self.commits}", id16(self.commits)
        told = await self.namespace.batches.commit(
            CommitRequest(name, run, nonce, (won,), digest, None, False), self.deadline
        )
        return str(told.outcome)

    async def pass_a_bucket(self) -> None:
        """Claims ids, produces others, repeats one from five days ago, and lets a bucket's time pass."""
        self.step += 1
        step, namespace = self.step, self.namespace
        assert await self.claim([f"claimed {step} {n}" for n in range(IDS)], 2 * step) == ["GRANTED"] * IDS
        numbers = range(step * IDS, (step + 1) * IDS)
        ids = namespace.fingerprints().of_array(pa.array([f"produced {n}" for n in numbers]))
        ask = ProduceRequest("topic", id16(2 * step), 1, rows_of(*numbers), ids)
        assert (await namespace.records.produce(ask, self.deadline)).rows == IDS
        old = step - int(5 * STEPS_A_DAY)
        if old > 0:
            again = [f"claimed {old} 0", f"produced {old * IDS}"]
            assert await self.claim(again, 2 * step + 1) == ["DUPLICATE"] * 2
        assert await self.commit(step) == "COMMITTED"
        if old > 0:
            assert await self.commit(old) == "DUPLICATE"
            assert await self.commit(max(1, step - 2 * NAMES_REMEMBERED)) == "DUPLICATE"
        self.clock.advance(STEP_MS)
        await run_ready_tasks(5)
        await wait_until(lambda: not namespace.home.eviction.working)
        await namespace.home.group_commit.all_durable()

    async def look(self) -> None:
        """Records the sizes at the end of a month: Python objects, index arrays, the folder."""
        gc.collect()
        self.objects.append(len(gc.get_objects()))
        claims = self.namespace.home.journal.index.claims
        self.index_bytes.append(claims.size_bytes + claims.cold.size_bytes)
        # Kept permanently: 60 bytes per name.
        kept = 60 * len(self.namespace.home.journal.index.batches.committed.older)
        saved = sum(len(entry.body) for entry in await replayed(self.namespace.home.eviction.outputs))
        self.start_bytes.append(saved - kept)
        self.disk_bytes.append(sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file()) - kept)

    async def pass_days(self, days: int) -> None:
        for _ in range(round(days * STEPS_A_DAY)):
            await self.pass_a_bucket()


@pytest.fixture(params=[Limits().hot_ids, SEALED_FROM], ids=["in memory", "sealed"])
async def world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    # Space is freed in whole files; a year of the test would not fill one of the usual size.
    monkeypatch.setattr(outputs, "FILE_BYTES", 128 << 10)
    monkeypatch.setattr(index_settings, "BUCKET_MS_MAX", STEP_MS)
    monkeypatch.setattr(committed_names, "NAMES_REMEMBERED", NAMES_REMEMBERED)
    clock, events, folder = FakeClock(), Events(), tmp_path / "data"
    # More than twice the snapshot, which grows with each name, so that the threshold is constant all year.
    limits = Limits(collect_bytes=256 << 10, hot_ids=request.param)
    async with (
        open_log(str(folder), create=True, disk=QuietDisk()) as ledgers,
        open_gateway(ledgers, LocalRunFolders(folder, QuietDisk()), clock, events, limits) as gateway,
    ):
        world = World(gateway, clock, folder, events, ledgers)
        await world.namespace.settings.configure(SettingsRequest(HORIZON_MS), world.deadline)
        for topic in ("topic", "committed"):
            await world.namespace.topics.create(TopicRequest(topic, retention_ms=3 * DAY_MS), world.deadline)
        yield world


@pytest.mark.slow
async def test_a_year_of_work_leaves_disk_and_memory_as_they_were_after_a_few_months(world: World) -> None:
    for _ in range(12):
        await world.pass_days(31)
        await world.look()
    assert world.events.names().count("compaction") >= 6
    assert "maintenance_failed" not in world.events.names()
    # The data that a start reads, and the disk space, grow between two compactions, which are not aligned to months: so
    # the two halves of the year are compared.
    assert max(world.start_bytes[6:]) <= 1.5 * max(world.start_bytes[:6]), world.start_bytes
    for measured in (world.disk_bytes, world.index_bytes, world.objects):
        assert max(measured[6:]) <= 1.2 * max(measured[:6]), measured
    counters, sealed = world.namespace.home.counters(), world.gateway.limits.hot_ids == SEALED_FROM
    assert counters["ids"] <= 2 * IDS * STEPS_A_DAY * 8.5
    # A bucket's ids may be newer than the last round of eviction.
    in_memory = counters["ids"] - counters["cold_ids"]
    assert in_memory <= SEALED_FROM + 2 * IDS if sealed else counters["cold_ids"] == 0
    assert counters["cold_runs"] <= RUNS_MAX
    names = world.namespace.home.journal.index.batches.committed
    assert len(names) == world.step
    assert len(names.last) == NAMES_REMEMBERED
    assert len(names.older) >= world.step - NAMES_REMEMBERED
    view = await world.namespace.topics.view("topic")
    assert view.high_offsets[0] - view.low_offsets[0] <= IDS * STEPS_A_DAY * 4


@pytest.mark.slow
async def test_a_compacted_ledger_has_the_knowledge_of_its_entries(world: World) -> None:
    await world.pass_days(80)
    assert "compaction" in world.events.names()
    before = contents(world.namespace.home.journal.index.claims)
    counters = world.namespace.home.counters()
    await world.gateway.close()
    runs = LocalRunFolders(world.folder, QuietDisk())
    async with open_gateway(world.ledgers, runs, world.clock, world.events) as gateway:
        namespace = gateway.namespace("default")
        assert contents(namespace.home.journal.index.claims) == before, "of what is in memory"
        assert namespace.home.counters()["cold_ids"] == counters["cold_ids"]
        again = namespace.home.counters()
        assert (again["ids"], again["takeovers"]) == (counters["ids"], counters["takeovers"])
        world.gateway = gateway
        await world.pass_days(1)
