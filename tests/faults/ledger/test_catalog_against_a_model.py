"""The catalog against plain dictionaries: appends continue during a compaction, and the power may fail in any disk
call.

A snapshot's thread waits in its disk call while the loop appends, so that a seed gives one walk.
"""

import asyncio
import copy
import errno
import os
import random
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from oncegate import packed
from oncegate.core.errors import LedgerDown, LedgerFull
from oncegate.ledgers import catalog as catalogs
from oncegate.ledgers import snapshot_pieces, snapshotting
from oncegate.ledgers.catalog import Catalog, Dropped, Published
from oncegate.ledgers.log.files import outputs
from oncegate.ledgers.log.files.outputs import read_range
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ports import DropRanges, OutputChange, PublishRanges, TrimRanges, WriteRange
from oncegate.testing.ledger_places import snapshot_of
from tests.support.crash_disk import Crashes, RecordingDisk, State, digest, materialize
from tests.support.ledger_tools import SEED, opened_at, repaired, settled
from tests.support.memory_gateway import wait_until

TOPICS = [("t", 0), ("t", 1), ("u", 0)]
OPENINGS, COMPACTIONS, APPENDS = 3, 3, 12
# The fraction of moments that are checked: all would be too many.
LOOKED_AT = 0.1
BIG = 1 << 40


@dataclass
class Topic:
    low: int = 0
    high: int = 0
    ranges: list[tuple[int, int, bytes]] = field(default_factory=list)


@dataclass
class Model:
    """The expected catalog. `waiting`: the rows and bytes of each staged range."""

    waiting: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    topics: dict[tuple[str, int], Topic] = field(default_factory=dict)

    def apply(self, change: OutputChange) -> None:
        match change:
            case WriteRange():
                self.waiting[change.range_id] = (change.rows, change.data)
            case PublishRanges():
                topic = self.topics.setdefault((change.topic, change.partition), Topic())
                for range_id in change.range_ids:
                    rows, data = self.waiting.pop(range_id)
                    if rows:
                        topic.ranges.append((topic.high, rows, data))
                        topic.high += rows
            case DropRanges():
                for range_id in change.range_ids:
                    del self.waiting[range_id]
            case TrimRanges():
                topic = self.topics.setdefault((change.topic, change.partition), Topic())
                topic.ranges = [one for one in topic.ranges if one[0] + one[1] > change.before_offset]
                topic.low = topic.ranges[0][0] if topic.ranges else topic.high

    def seen(self) -> "Seen":
        topics = {key: (one.low, one.high, tuple(one.ranges)) for key, one in self.topics.items() if one.high}
        return topics, dict(self.waiting)


# Lowest offset, next offset and ranges of each topic with rows; the staged ranges.
Seen = tuple[dict[tuple[str, int], tuple[int, int, tuple[tuple[int, int, bytes], ...]]], dict[bytes, tuple[int, bytes]]]


def see(catalog: Catalog, read: Callable[[Any], bytes], ids: Sequence[bytes]) -> Seen:
    """Returns everything that a catalog reports about these ids. The catalog cannot be used afterwards."""
    topics, waiting = {}, {}
    for name, partition, low, count in catalog.topics():
        found = catalog.find(name, partition, low, BIG, BIG)
        assert (len(found), low) == (count, catalog.offsets(name, partition)[0])
        for one in found:
            assert catalog.find(name, partition, one.first_offset + one.rows - 1, 1, BIG) == [one]
        if high := catalog.offsets(name, partition)[1]:
            topics[name, partition] = (
                low,
                high,
                tuple((one.first_offset, one.rows, read(one.location)) for one in found),
            )
    count = catalog.ranges_waiting
    for range_id in ids:
        try:
            catalog.check([Dropped((range_id,))])
        except ValueError:
            continue
        before = catalog.offsets("waited", 0)[1]
        empty = catalog.apply(Published("waited", 0, before, (range_id,)))
        found = catalog.find("waited", 0, before, 1, BIG)
        location = empty[0] if empty else found[0].location
        waiting[range_id] = (found[0].rows if found else 0, read(location))
    assert len(waiting) == count
    return topics, waiting


def see_at(data: Path, ids: Sequence[bytes]) -> Seen:
    """Returns the catalog that a new process would find after a repair."""
    with repaired(data) as (disk, paths, found):
        return see(found.scan.catalog, lambda at: read_range(disk, paths.outputs, at), ids)


class MeetingDisk(RecordingDisk):
    """Calls `meet` before each call that writes a snapshot; it may block the snapshot's thread, or fail if
    permitted."""

    meet: Callable[[bool], None] | None = None

    def _met(self, is_snapshot: bool, may_fail: bool = False) -> None:
        if is_snapshot and self.meet is not None:
            self.meet(may_fail)

    def _is_snapshot(self, fd: int) -> bool:
        file = self._files[fd]
        return any(path.name.endswith(".out.tmp") for path, number in self._paths.items() if number == file)

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        self._met(path.name.endswith(".out.tmp"))
        return super().create(path, mode=mode)

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        self._met(self._is_snapshot(fd), may_fail=True)
        super().write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        super().sync(fd)
        self._met(self._is_snapshot(fd))

    def rename(self, old: Path, new: Path) -> None:
        self._met(old.name.endswith(".out.tmp"))
        super().rename(old, new)


class Walk:
    def __init__(self, root: Path, seed: int) -> None:
        self.rng, self.data = random.Random(seed), root / "data"
        self.disk = MeetingDisk(root)
        self.model = Model()
        self.ids: list[bytes] = []
        self.seen: list[Seen] = [self.model.seen()]
        self.meetings = self.rounds = self.full = self.left = 0

    def changes(self) -> list[OutputChange]:
        """Returns a few changes that a gateway could request now."""
        model, asked = copy.deepcopy(self.model), list[OutputChange]()
        for _ in range(self.rng.randrange(1, 5)):
            change = self._change(model)
            if change is not None:
                model.apply(change)
                asked.append(change)
        return asked

    def _change(self, model: Model) -> OutputChange | None:
        rng, key = self.rng, self.rng.choice(TOPICS)
        kind = rng.choice(["write", "write", "publish", "publish", "drop", "trim"])
        if kind == "write":
            self.ids.append(len(self.ids).to_bytes(16, "big"))
            return WriteRange(self.ids[-1], rng.choice("ab"), rng.randrange(4), rng.randbytes(rng.randrange(1, 200)))
        if kind == "trim":
            topic = model.topics.get(key, Topic())
            return TrimRanges(*key, rng.randrange(topic.low, topic.high + 3))
        few = rng.sample(sorted(model.waiting), min(len(model.waiting), rng.randrange(1, 4)))
        if not few:
            return None
        if kind == "drop":
            return DropRanges(tuple(few[:1]))
        return PublishRanges(*key, model.topics.get(key, Topic()).high, tuple(few))

    async def append(self, ledger: LogLedger) -> None:
        changes = self.changes()
        for change in changes:
            self.model.apply(change)
        self.seen.append(self.model.seen())
        await ledger.append([b"entry"] if self.rng.random() < 0.7 else [], changes)
        self.disk.note("acknowledged")
        await settled(ledger)

    async def compact(self, ledger: LogLedger, end: str) -> None:
        """Compacts with appends during its disk calls. `end`: "full" or "left" after some of these, or "whole"."""
        loop, calls, last = asyncio.get_running_loop(), 0, self.rng.randrange(2, 8)
        leave, many = asyncio.Event(), self.rng.randrange(4, 40)

        async def leaving() -> None:
            leave.set()
            await wait_until(ledger._letting_go.is_set)

        def wait(what: Awaitable[None]) -> None:
            asyncio.run_coroutine_threadsafe(what, loop).result()  # type: ignore[arg-type]

        def meet(may_fail: bool) -> None:
            nonlocal calls
            calls += 1
            if calls == last and end == "left":
                wait(leaving())
            elif calls >= last and end == "full" and may_fail:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            elif end != "left" or calls < last:
                for _ in range(self.rng.randrange(3) if calls < many else 0):
                    self.meetings += 1
                    wait(self.append(ledger))

        self.disk.meet = meet
        entries = [self.rng.randbytes(200) for _ in range(self.rng.randrange(3))]
        compacting = asyncio.create_task(ledger.compact(ledger.mark.position, snapshot_of(*entries)))
        left = asyncio.create_task(leave.wait())
        await asyncio.wait([compacting, left], return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        self.compacting = compacting
        if not leave.is_set():
            self.rounds += calls
            await self.ended()

    async def ended(self) -> None:
        try:
            await self.compacting
        except LedgerFull:
            self.full += 1
        except LedgerDown:
            self.left += 1
        self.disk.meet = None

    async def open(self, *, create: bool) -> None:
        async with opened_at(self.data, create=create, disk=self.disk) as ledger:
            if create:
                self.disk.note("acknowledged")
            ends = [*self.rng.choices(["whole", "full"], [2, 1], k=COMPACTIONS), self.rng.choice(["left", "whole"])]
            for end in ends:
                for _ in range(self.rng.randrange(APPENDS)):
                    await self.append(ledger)
                if ledger.mark.position:
                    await self.compact(ledger, end)
        await self.ended()


@pytest.fixture(autouse=True)
def small(small_segments: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncegate.ledgers.log.ledgers.WITNESS_SYNC_S", 3600.0)
    monkeypatch.setattr(snapshotting, "CHANGES_IN_FRAME", 3)
    monkeypatch.setattr(snapshotting, "CHANGES_PER_PIECE", 2)
    monkeypatch.setattr(catalogs, "CHANGES_PER_PIECE", 2)
    monkeypatch.setattr(catalogs, "BLOCKS_PER_PIECE", 1)
    monkeypatch.setattr(packed, "BLOCK_RECORDS", 4)
    monkeypatch.setattr(snapshot_pieces, "PIECE_BYTES", 400)
    monkeypatch.setattr(outputs, "FILE_BYTES", 8_192)


async def test_a_catalog_opens_as_it_was_acknowledged_wherever_the_power_fails(fast_folder: Path) -> None:
    print("seed", SEED)
    root = fast_folder / "origin"
    root.mkdir()
    walk = Walk(root, SEED)
    for number in range(OPENINGS):
        await walk.open(create=number == 0)
        shutil.copytree(root, fast_folder / "copy")
        assert see_at(fast_folder / "copy/data", walk.ids) == walk.seen[-1], f"seed {SEED}, closed"
        shutil.rmtree(fast_folder / "copy")
    looked = look_at_crashes(fast_folder, walk)
    print(len(walk.seen), "appends,", walk.meetings, "in a compaction;", walk.full, "full,", walk.left, "left;", looked)
    assert walk.meetings > 30
    assert looked > 100


def look_at_crashes(folder: Path, walk: Walk) -> int:
    crashes, rng, acknowledged = Crashes(folder / "origin"), random.Random(SEED), 0
    known: dict[bytes, Seen] = {}
    for number, op in enumerate(walk.disk.ops):
        crashes.step(op)
        acknowledged += op.kind == "note"
        if not acknowledged or rng.random() > LOOKED_AT:
            continue
        for state in left_over(crashes, rng):
            key = digest(state)
            if key not in known:
                here = folder / "crashed"
                materialize(state, folder / "origin", here)
                known[key] = see_at(here / "data", walk.ids)
                shutil.rmtree(here)
            allowed = walk.seen[acknowledged - 1 : acknowledged + 1]
            assert known[key] in allowed, f"seed {SEED}, operation {number}: {op.kind} {op.path}"
    return len(known)


def left_over(crashes: Crashes, rng: random.Random) -> list[State]:
    """Returns two states: only synced data, and one with some more names or everything."""
    pending = len(crashes._pending_names)
    synced = dict(crashes._contents)
    everything = {file: crashes._all(file) for file in synced}
    return [crashes.durable(), crashes._state(rng.randrange(pending + 1), rng.choice([synced, everything]))]
