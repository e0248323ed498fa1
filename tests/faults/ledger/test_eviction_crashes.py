"""Eviction interrupted at each point by a power failure: every acknowledged id is still known.

A gateway over the recording disk seals, merges and retires archives. Another one is then opened over the states that
each moment could leave, and asked.
"""

import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from oncegate.core.claims import Verb
from oncegate.engine.deadline import Deadline
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.engine.requests import ClaimRequest
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import backup, dump, open_log, restore, verify
from oncegate.runs import LocalRunFolders
from oncegate.testing import FakeClock
from tests.support.crash_disk import Crashes, Op, RecordingDisk, State, digest, materialize
from tests.support.ledger_tools import SEED, QuietDisk
from tests.support.memory_gateway import Events, id16, verdicts_of, wait_until

FORGOTTEN_MS, BUCKET_MS, HORIZON_MS = 90_000, 3_600_000, 24 * 3_600_000
# Half of the moments after one of these are checked, chosen by the seed.
LOOKED_AT = ("write", "rename", "unlink", "sync_folder")
LIMITS = Limits(hot_ids=4, seal_bytes=64, collect_bytes=2_000)


@dataclass
class Life:
    """A gateway on a clock. `known`: after each acknowledgement, the completed ids and all ids so far."""

    gateway: Gateway
    clock: FakeClock
    disk: Disk
    token: int = 0
    done: set[str] = field(default_factory=set)
    known: list[set[str]] = field(default_factory=lambda: [set()])

    async def claim(self, ids: list[str]) -> list[str]:
        namespace = self.gateway.namespace("default")
        self.token += 1
        prints = namespace.fingerprints().of_array(pa.array(ids))
        answer = await namespace.claims.claim(ClaimRequest(id16(self.token), 1, prints), Deadline(self.clock))
        if answer.claim is not None:
            await namespace.claims.settle(Verb.COMPLETE, answer.claim, Deadline(self.clock))
        return verdicts_of(answer)

    async def work(self, *ids: str) -> None:
        await self.claim(list(ids))
        self.done |= set(ids)
        self.acknowledged()

    def acknowledged(self) -> None:
        if isinstance(self.disk, RecordingDisk):
            self.disk.note("acknowledged")
        self.known.append(set(self.done))

    async def seal(self) -> None:
        eviction = self.gateway.namespace("default").home.eviction
        self.clock.advance(FORGOTTEN_MS)
        eviction.step()
        await wait_until(lambda: not eviction.working)


@asynccontextmanager
async def living(folder: Path, disk: Disk, clock: FakeClock, create: bool = False) -> AsyncIterator[Life]:
    async with (
        open_log(str(folder / "data"), create=create, disk=disk) as ledgers,
        open_gateway(ledgers, LocalRunFolders(folder / "data", disk), clock, Events(), LIMITS) as gateway,
    ):
        yield Life(gateway, clock, disk)


async def record(root: Path) -> tuple[list[Op], list[set[str]]]:
    """Runs rounds, merges, a compaction, and a restart in between."""
    root.mkdir()
    disk, clock = RecordingDisk(root), FakeClock()
    async with living(root, disk, clock, create=True) as life:
        for part in range(6):
            await life.work(*(f"{part}/{n}" for n in range(5)))
            await life.seal()
        life.gateway.namespace("default").home.scheduler.compact()
        snapshotter = life.gateway.namespace("default").home.snapshotter
        await wait_until(lambda: not snapshotter.compacting)
        await life.work(*(f"late/{n}" for n in range(6)))
        await life.seal()
        assert life.gateway.namespace("default").home.counters()["cold_ids"] > 25
        known = life.known
    async with living(root, disk, clock):
        return disk.ops, known


def moments(crashes: Crashes, rng: random.Random) -> list[State]:
    """Returns the synced state, and one of the many other states."""
    return [crashes.durable(), rng.choice(list(crashes.states(rng)))]


@pytest.mark.slow
async def test_whatever_a_crash_leaves_of_a_round_every_acknowledged_id_is_known(fast_folder: Path) -> None:
    ops, known = await record(fast_folder / "origin")
    crashes, rng, seen = Crashes(fast_folder / "origin"), random.Random(SEED), set()
    acknowledged = 0
    print(f"seed {SEED}")
    for number, op in enumerate(ops):
        crashes.step(op)
        acknowledged += op.kind == "note"
        if acknowledged == 0 or op.kind not in LOOKED_AT or rng.random() < 0.5:
            continue
        for state in moments(crashes, rng):
            if (key := digest(state)) in seen:
                continue
            seen.add(key)
            here = fast_folder / "crashed"
            materialize(state, fast_folder / "origin", here)
            await look(here, known[acknowledged], f"operation {number}, {op.kind} {op.path.name}")
            shutil.rmtree(here)
    assert len(seen) > 50


async def look(folder: Path, done: set[str], when: str) -> None:
    """Checks that completed ids are DUPLICATE and new ids GRANTED, also after everything is sealed."""
    async with living(folder, QuietDisk(), FakeClock(2_000_000, 1_800_000_000_000)) as life:
        asked, life.token = sorted(done), 1_000
        assert await life.claim(asked) == ["DUPLICATE"] * len(asked), when
        assert await life.claim([f"new {n}" for n in range(9)]) == ["GRANTED"] * 9, when
        await life.seal()
        assert await life.claim(asked) == ["DUPLICATE"] * len(asked), when
        counters = life.gateway.namespace("default").home.counters()
        assert counters["ids"] >= len(done) + 9, when
        assert counters["cold_ids"] > 0, when


async def test_a_restored_backup_makes_its_runs_again_and_dump_and_verify_know_archives(fast_folder: Path) -> None:
    folder, restored = fast_folder / "origin", fast_folder / "restored"
    asked = [f"id {n}" for n in range(20)]
    async with living(folder, QuietDisk(), FakeClock(), create=True) as life:
        await life.work(*asked)
        await life.seal()
        assert life.gateway.namespace("default").home.counters()["cold_ids"] > 0
    backup(str(folder / "data"), str(fast_folder / "backup"))
    assert not list((fast_folder / "backup").rglob("*.run"))
    kinds = [item.kind for item in dump(str(folder / "data"))]
    assert "Evicted" in kinds
    assert "DAMAGED" not in kinds
    restored.mkdir()
    restore(str(fast_folder / "backup"), str(restored / "data"))
    assert [found.ranges > 0 for found in verify(str(restored / "data"))] == [True]
    async with living(restored, QuietDisk(), FakeClock(2_000_000)) as life:
        life.token = 500
        assert await life.claim([*asked, "new"]) == ["DUPLICATE"] * 20 + ["GRANTED"]
        assert life.gateway.namespace("default").home.counters()["cold_ids"] > 0
    assert list(restored.rglob("*.run"))
