"""A compaction that a crash or a failing disk interrupts at each point, and damage to its files."""

import errno
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDown, LedgerFull
from oncegate.ledgers.disk import BLOCK_BYTES
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ports import DropRanges
from oncegate.testing.ledger_places import snapshot_of
from tests.support.crash_disk import Crashes, Op, RecordingDisk, State, digest, materialize
from tests.support.ledger_damage import Verdicts, files_of
from tests.support.ledger_tools import (
    SEED,
    Append,
    FailingDisk,
    Seen,
    Trouble,
    look,
    look_quickly,
    names,
    opened_at,
    produce,
    publish,
    range_of,
    see,
    settled,
)


@dataclass(frozen=True)
class Collect:
    position: int
    state: Sequence[bytes]


async def play(ledger: LogLedger, actions: Sequence[Append | Collect]) -> AsyncIterator[Seen]:
    """Yields the content of the ledger after each action."""
    for action in actions:
        if isinstance(action, Collect):
            await ledger.compact(action.position, snapshot_of(*action.state))
            # Deletions finish before the ledger is read: a reader would delay them until the next sync of the witness.
            await settled(ledger)
        else:
            await ledger.append(*action)
        yield await see(ledger)


RUN: list[Append | Collect] = [
    produce(0),
    ([b"staged"], [range_of(10, stream="a"), range_of(11, stream="b")]),
    ([b"two at", b"once"], [publish(1, 10), DropRanges((range_of(11).range_id,))]),
    ([b"kept"], []),
    Collect(4, [b"state of four"]),
    produce(2),
    ([b"more"], []),
    Collect(6, [b"state of six", b"." * 600]),
    ([b"last"], []),
]


async def record(root: Path) -> tuple[list[Op], list[Seen]]:
    """Returns the operations of a run with two compactions and of the next opening, and the content after each
    action."""
    root.mkdir()
    disk, data = RecordingDisk(root), str(root / "data")
    async with open_log(data, create=True, disk=disk) as ledgers, ledgers.open("default") as opened:
        seen = [await see(opened.ledger)]
        async for after in play(opened.ledger, RUN):
            disk.note("acknowledged")
            seen.append(after)
    async with open_log(data, disk=disk) as ledgers, ledgers.open("default"):
        return disk.ops, seen


@pytest.mark.slow
async def test_every_crash_state_of_a_collection_opens_to_before_or_after(
    fast_folder, small_segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The compaction must sync everything itself: on a slow machine a periodic sync could hide a missing one.
    monkeypatch.setattr("oncegate.ledgers.log.ledgers.WITNESS_SYNC_S", 3600.0)
    ops, seen = await record(fast_folder / "origin")
    crashes, rng = Crashes(fast_folder / "origin"), random.Random(SEED)
    acknowledged, found, hits = 0, {}, {"before": 0, "after": 0}
    assert sum(op.kind == "unlink" and op.path.suffix == ".seg" for op in ops) >= 3
    for op in ops:
        crashes.step(op)
        acknowledged += op.kind == "note"
        allowed = seen[acknowledged : acknowledged + 2]
        for state in crashes.states(rng):
            key = digest(state)
            if key not in found:
                found[key] = open_quickly(fast_folder, state, create=acknowledged == 0)
                hits["after" if found[key] in allowed[1:] else "before"] += 1
            assert found[key] in allowed, f"seed {SEED}, after {op.kind} {op.path}: {found[key]}"
    print("seed", SEED, len(found), "different states of", len(ops), "operations", hits)
    assert min(hits.values()) > 20, "the enumeration hits both sides"


def open_quickly(folder: Path, state: State, *, create: bool = False) -> object:
    here = folder / "crashed"
    materialize(state, folder / "origin", here)
    try:
        return look_quickly(here / "data", create=create)
    finally:
        shutil.rmtree(here)


async def test_a_power_failure_between_any_two_steps_opens_and_continues(fast_folder, small_segments) -> None:
    """Only synced data is left, or all names too; the ledger then compacts again."""
    ops, seen = await record(fast_folder / "origin")
    crashes, acknowledged, tried = Crashes(fast_folder / "origin"), 0, 0
    for number, op in enumerate(ops):
        crashes.step(op)
        acknowledged += op.kind == "note"
        if not acknowledged:
            continue
        pending = len(crashes._pending_names)
        for names_landed in {0, pending // 2, pending}:
            here = fast_folder / f"{number} {names_landed}"
            materialize(crashes._state(names_landed, dict(crashes._contents)), fast_folder / "origin", here)
            async with opened_at(here / "data") as ledger:
                assert await see(ledger) in seen[acknowledged : acknowledged + 2], (number, op.kind, op.path)
                mark = await ledger.append([b"after the crash"], [])
                await ledger.compact(mark.position, snapshot_of(b"all"))
                after = await see(ledger)
            assert await look(here / "data") == after
            tried += 1
            shutil.rmtree(here)
    assert tried > 100


async def test_an_opening_that_finishes_a_collection_pins_its_witness_first(fast_folder, small_segments) -> None:
    """The last owner died between the frame and its witness; this one removes files that the witness may still name."""
    trouble = Trouble("write", 1, errno.EIO, ".witness")
    root = fast_folder / "origin"
    async with opened_at(root / "data", create=True, disk=FailingDisk(trouble)) as ledger:
        for number in range(7):
            await ledger.append(*produce(number))
        trouble.armed = True
        with pytest.raises(LedgerDown):
            await ledger.compact(7, snapshot_of(b"state"))
    disk = RecordingDisk(root)
    async with opened_at(root / "data", disk=disk) as ledger:
        assert len(names(root / "data", suffix=".seg")) < 4
        seen = [await see(ledger)]
        for body in (b"a", b"b", b"c"):
            await ledger.append([body], [])
            disk.note("acknowledged")
            seen.append(await see(ledger))
    crashes, acknowledged, tried = Crashes(root), 0, set()
    for op in disk.ops:
        crashes.step(op)
        acknowledged += op.kind == "note"
        witness = acknowledged and op.kind == "write" and len(op.data) < BLOCK_BYTES
        for state in crashes.states(random.Random(SEED)) if witness else ():
            if digest(state) not in tried:
                tried.add(digest(state))
                assert open_quickly(fast_folder, state) in seen[acknowledged : acknowledged + 2], f"seed {SEED}"
    assert len(tried) > 20


@pytest.mark.parametrize("call", ["create", "write", "sync", "sync_folder", "rename", "read"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
async def test_a_collection_on_a_failing_disk_took_place_or_did_not(tmp_path, small_segments, call, code) -> None:
    """Each call of each kind fails once. After LedgerFull nothing has changed and the ledger continues."""
    said = set()
    for number in range(1, 8):
        data, trouble = tmp_path / str(number), Trouble(call, number, code)
        async with opened_at(data, create=True, disk=FailingDisk(trouble)) as ledger:
            for entry in range(5):
                await ledger.append(*produce(entry))
            before, trouble.armed = await see(ledger), True
            try:
                await ledger.compact(4, snapshot_of(b"state"))
                said.add("done")
            except LedgerFull:
                said.add("full")
                assert code == errno.ENOSPC
                trouble.armed = False
                assert await see(ledger) == before
                await ledger.compact(4, snapshot_of(b"state"))
                await ledger.append([b"on"], [])
                before = Seen((*before.entries, b"on"), before.chunks)
                await settled(ledger)
                assert len(names(data, "outputs")) == 2, "an undone write leaves no file"
            except LedgerDown:
                said.add("down")
                with pytest.raises(LedgerDown):
                    await ledger.compact(4, snapshot_of(b"state"))
        after = Seen((b"state", *before.entries[4:]), before.chunks)
        assert await look(data) in (before, after)
    assert "done" in said, "every call of this kind has failed once"
    assert len(said) > 1


@pytest.mark.parametrize("left", [0, 1, 10**6])
async def test_a_state_that_was_cut_short_leaves_no_file(fast_folder, small_segments, left) -> None:
    """The file may be large, and is useless to a person."""
    data, disk = fast_folder / "data", FailingDisk()
    disk.fails = lambda call, path: (
        errno.EIO if (call, path.suffix) == ("sync", ".tmp") and "out" in path.name else None
    )
    async with opened_at(data, create=True, disk=disk) as ledger:
        await ledger.append(*produce(0))
        with pytest.raises(LedgerDown):
            await ledger.compact(1, snapshot_of(b"state" * left))
    assert len(names(data, "outputs")) == 2
    await look(data)
    assert len(names(data, "outputs")) == 1
    assert names(data, "aside") == []


@pytest.mark.slow
async def test_damage_to_a_collected_ledger_never_serves_short(fast_folder, small_segments) -> None:
    """Flips, cuts, zeroed blocks and missing files, in every file of it."""
    async with opened_at(fast_folder / "data", create=True) as ledger:
        for number in range(10):
            await ledger.append(*produce(number))
        await ledger.compact(5, snapshot_of(b"seven" * 300, b"of them"))
        await ledger.append([b"last"], [])
        whole = await see(ledger)
    verdicts, rng = Verdicts(fast_folder, whole), random.Random(SEED)
    for file in files_of(fast_folder):
        data = (fast_folder / file).read_bytes()
        verdicts.of(file, None)
        for at in rng.sample(range(len(data)), min(60, len(data))):
            verdicts.of(file, data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
            verdicts.of(file, data[:at])
        for at in range(0, len(data), BLOCK_BYTES):
            verdicts.of(file, data[:at] + bytes(min(BLOCK_BYTES, len(data) - at)) + data[at + BLOCK_BYTES :])
    print("seed", SEED, dict(verdicts.counts))
    assert set(verdicts.counts) == {"refused", "whole"}
    assert verdicts.counts["refused"] > 300
