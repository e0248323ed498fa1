"""A collection on disk: what goes and what stays, what a crash at each point leaves, and what is refused."""

import asyncio
import errno
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFull
from oncegate.ledgers.log import accept, dump, open_log
from oncegate.ledgers.log import ledger as ledger_module
from oncegate.ledgers.log.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ledgers.log.removals import held
from oncegate.ports import DropRanges, TrimRanges
from tests.faults.ledger.crash_disk import Crashes, Op, RecordingDisk, State, materialize
from tests.faults.ledger.test_crash_states import digest
from tests.faults.ledger.test_damage import Verdicts
from tests.faults.ledger.test_damage import _files as damage_files
from tests.faults.ledger.test_failing_disk import Trouble
from tests.faults.ledger.tools import (
    SEED,
    Append,
    FailingDisk,
    QuietDisk,
    Seen,
    judge,
    look,
    look_quickly,
    produce,
    publish,
    range_of,
    see,
)


@dataclass(frozen=True)
class Collect:
    position: int
    state: Sequence[bytes]


def names(data: Path, folder: str = ".", suffix: str = "") -> list[str]:
    return sorted(path.name for path in (data / "default/0" / folder).iterdir() if path.name.endswith(suffix))


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three frames of a block each."""
    monkeypatch.setattr(ledger_module, "SEGMENT_BYTES", 4 * BLOCK_BYTES)


@asynccontextmanager
async def opened_at(data: Path, *, create: bool = False, disk: Disk | None = None) -> AsyncIterator[LogLedger]:
    async with (
        open_log(str(data), create=create, disk=disk or QuietDisk()) as ledgers,
        ledgers.open("default") as opened,
    ):
        assert isinstance(opened.ledger, LogLedger)
        yield opened.ledger


async def play(ledger: LogLedger, actions: Sequence[Append | Collect]) -> AsyncIterator[Seen]:
    """What the ledger holds after each action."""
    for action in actions:
        if isinstance(action, Collect):
            await ledger.collect(action.position, action.state)
        else:
            await ledger.append(*action)
        yield await see(ledger)


async def settled(ledger: LogLedger) -> None:
    """Files are removed by the writer after the answer; one more turn of it waits for that."""
    await ledger._in_writer(int)


async def removed(ledger: LogLedger, data: Path) -> None:
    """One segment is left: the ledger looks again, with each sync of its witness, whether somebody reads."""
    async with asyncio.timeout(20):
        while len(names(data, suffix=".seg")) > 1:
            await asyncio.to_thread(ledger._witness.sync)


async def fill_and_collect(data: Path) -> Seen:
    """Ten appends in several segments, the first seven collected."""
    async with opened_at(data, create=True) as ledger:
        for number in range(10):
            await ledger.append(*produce(number))
        await ledger.collect(7, [b"seven" * 300, b"of them"])
        await settled(ledger)
        return await see(ledger)


async def test_whole_segments_are_given_back_and_the_old_state_is(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    await fill_and_collect(data)
    assert names(data, suffix=".seg") == ["00000004.seg", "00000005.seg"]
    assert len(names(data, "outputs")) == 2, "the topic's rows and the state"
    async with opened_at(data) as ledger:
        await ledger.append([b"more"], [])
        await ledger.collect(11, [b"eleven"])
        await settled(ledger)
        assert len(names(data, suffix=".seg")) == 1
        outputs = names(data, "outputs")
        assert "00000001-00000002.out" not in outputs, "the older state went when the newer one replaced it"
        assert "00000002-00000001.out" in outputs
        assert (await see(ledger)).entries == (b"eleven",)
    assert names(data, "aside") == []


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
    """The operations of a life with two collections and of the next opening; what it held after each action."""
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
async def test_every_crash_state_of_a_collection_opens_to_before_or_after(fast_folder, small_segments) -> None:
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


async def test_a_power_failure_between_any_two_steps_opens_and_goes_on(fast_folder, small_segments) -> None:
    """Only what was synced is left, or all names too; and the ledger collects again."""
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
                await ledger.collect(mark.position, [b"all"])
                after = await see(ledger)
            assert await look(here / "data") == after
            tried += 1
            shutil.rmtree(here)
    assert tried > 100


async def test_an_opening_that_finishes_a_collection_pins_its_witness_first(fast_folder, small_segments) -> None:
    """The last owner died between the frame and its witness: this one removes what the witness may still name."""
    trouble = Trouble("write", 1, errno.EIO, ".witness")
    root = fast_folder / "origin"
    async with opened_at(root / "data", create=True, disk=FailingDisk(trouble)) as ledger:
        for number in range(7):
            await ledger.append(*produce(number))
        trouble.armed = True
        with pytest.raises(LedgerDown):
            await ledger.collect(7, [b"state"])
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
    """Each call of each kind fails once. LedgerFull means: nothing changed, and it goes on."""
    said = set()
    for number in range(1, 8):
        data, trouble = tmp_path / str(number), Trouble(call, number, code)
        async with opened_at(data, create=True, disk=FailingDisk(trouble)) as ledger:
            for entry in range(5):
                await ledger.append(*produce(entry))
            before, trouble.armed = await see(ledger), True
            try:
                await ledger.collect(4, [b"state"])
                said.add("done")
            except LedgerFull:
                said.add("full")
                assert code == errno.ENOSPC
                trouble.armed = False
                assert await see(ledger) == before
                await ledger.collect(4, [b"state"])
                await ledger.append([b"on"], [])
                before = Seen((*before.entries, b"on"), before.chunks)
                await settled(ledger)
                assert len(names(data, "outputs")) == 2, "what was taken back leaves no file"
            except LedgerDown:
                said.add("down")
                with pytest.raises(LedgerDown):
                    await ledger.collect(4, [b"state"])
        after = Seen((b"state", *before.entries[4:]), before.chunks)
        assert await look(data) in (before, after)
    assert "done" in said, "every call of this kind has failed once"
    assert len(said) > 1


async def test_a_damaged_or_missing_state_is_refused_and_nothing_touched(fast_folder, small_segments) -> None:
    data, rng = fast_folder / "data", random.Random(SEED)
    whole = await fill_and_collect(data)
    path = next((data / "default/0/outputs").glob("*-00000002.out"))
    content = path.read_bytes()
    assert b"of them" in content
    for at in rng.sample(range(len(content)), 30):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        before = everything(data)
        found = await look(data)
        assert isinstance(found, LedgerDamaged), (SEED, at)
        assert "not those that were written" in found.detail
        assert everything(data) == before
    path.write_bytes(content[:-1])
    assert isinstance(await look(data), LedgerDamaged)
    path.unlink()
    assert isinstance(await look(data), LedgerDamaged)
    path.write_bytes(content)
    assert await look(data) == whole


def everything(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in data.rglob("*.*") if path.is_file()}


async def test_a_segment_that_is_needed_is_missed(fast_folder, small_segments) -> None:
    data = fast_folder / "data"
    await fill_and_collect(data)
    async with opened_at(data) as ledger:
        await ledger.append([b"more"], [])
    assert names(data, suffix=".seg")[0] == "00000004.seg"
    for segment in ("00000004.seg", "00000005.seg"):
        path = data / "default/0" / segment
        content = path.read_bytes()
        path.unlink()
        before = everything(data)
        found = await look(data)
        assert isinstance(found, LedgerDamaged)
        assert f"{segment} is missing" in found.detail
        assert everything(data) == before
        path.write_bytes(content)


async def test_a_ledger_without_its_first_segments_that_was_never_collected_is_refused(fast_folder, small_segments):
    data = fast_folder / "data"
    async with opened_at(data, create=True) as ledger:
        for number in range(10):
            await ledger.append(*produce(number))
    for number in (1, 2):
        (data / f"default/0/{number:08}.seg").unlink()
    found = judge(data)
    assert isinstance(found, LedgerDamaged)
    assert "00000002.seg is missing" in found.detail
    with pytest.raises(LedgerDamaged, match="is missing"):
        accept(str(data))


async def test_a_first_segment_of_another_history_is_refused(fast_folder, small_segments) -> None:
    """Two lives from one copy: number and first position agree, the chain does not."""
    twins = [fast_folder / name for name in ("a", "b")]
    async with opened_at(twins[0], create=True) as ledger:
        await ledger.append([b"common"], [])
    for suffix in ("", ".witness"):
        shutil.copytree(fast_folder / f"a{suffix}", fast_folder / f"b{suffix}")
    for number, data in enumerate(twins):
        async with opened_at(data) as ledger:
            await ledger.append([b"of %d" % number], [])
            await ledger.collect(2, [b"state"])
            for later in range(4):
                await ledger.append([b"later %d" % later], [])
            await settled(ledger)
    segments = [names(data, suffix=".seg") for data in twins]
    assert segments[0] == segments[1]
    shutil.copy(twins[1] / "default/0" / segments[0][0], twins[0] / "default/0" / segments[0][0])
    assert isinstance(judge(twins[0]), LedgerDamaged)


@pytest.mark.parametrize("wrong", [{"previous_chain": bytes(16)}, {"first_position": 1}, {"segment": 1}])
async def test_a_collection_that_names_another_beginning_is_refused(fast_folder, small_segments, monkeypatch, wrong):
    """The walk alone would not see it: each segment continues the one before."""
    data = fast_folder / "data"
    named = ledger_module.Collected
    monkeypatch.setattr(
        ledger_module, "Collected", lambda *fields: msgspec.structs.replace(named(*fields), **wrong), raising=True
    )
    async with opened_at(data, create=True) as ledger:
        for number in range(7):
            await ledger.append(*produce(number))
        await ledger.collect(7, [b"state"])
        needed = ledger._segment.header.segment
    for segment in range(1, needed):
        (data / f"default/0/{segment:08}.seg").unlink(missing_ok=True)
    found = judge(data)
    assert isinstance(found, LedgerDamaged)
    assert "does not begin where" in found.detail or "is missing" in found.detail


async def test_segments_that_a_crash_left_behind_are_removed_also_with_a_hole(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        for number in range(7):
            await ledger.append(*produce(number))
        shutil.copytree(data / "default/0", tmp_path / "kept")
        await ledger.collect(7, [b"state"])
        await settled(ledger)
        whole = await see(ledger)
    for segment in ("00000001.seg", "00000003.seg"):
        shutil.copy(tmp_path / "kept" / segment, data / "default/0" / segment)
    assert await look(data) == whole
    assert names(data, suffix=".seg")[0] > "00000003.seg"
    assert await look(data) == whole


async def test_a_replay_under_way_keeps_what_it_reads(tmp_path, small_segments, monkeypatch) -> None:
    monkeypatch.setattr(ledger_module, "WITNESS_SYNC_S", 0.01)
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        for number in range(10):
            await ledger.append(*produce(number))
        reading = ledger.replay(1)
        bodies = [next(reading).body]
        await ledger.collect(10, [b"first state"])
        again = ledger.replay(1)
        assert next(again).body == b"first state"
        await ledger.append([b"more"], [])
        await ledger.collect(11, [b"second state"])
        await settled(ledger)
        assert len(names(data, suffix=".seg")) > 4
        bodies += [one.body for one in reading]
        assert bodies == [b"entry %d" % number for number in range(10)]
        assert [one.body for one in again] == []
        await removed(ledger, data)
        assert (await see(ledger)).entries == (b"second state",)


async def test_files_that_are_held_are_removed_when_they_are_let_go(tmp_path, small_segments, monkeypatch) -> None:
    """Also when nothing is appended any more."""
    monkeypatch.setattr(ledger_module, "WITNESS_SYNC_S", 0.01)
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        with held(data / "default/0/outputs"):
            for number in range(10):
                await ledger.append(*produce(number))
            await ledger.append([], [TrimRanges("t", 0, 10)])
            await ledger.collect(10, [b"state"])
            await settled(ledger)
            assert len(names(data, suffix=".seg")) > 4
            assert len(names(data, "outputs")) > 1
        await removed(ledger, data)
        assert len(names(data, "outputs")) == 1, "the state"


async def test_files_that_are_held_while_it_opens_stay_and_the_next_opening_removes_them(tmp_path, small_segments):
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        with held(data / "default/0/outputs"):
            for number in range(10):
                await ledger.append(*produce(number))
            await ledger.collect(10, [b"state"])
            whole = await see(ledger)
            shutil.copytree(tmp_path / "data", tmp_path / "copy")
            shutil.copytree(tmp_path / "data.witness", tmp_path / "copy.witness")
    copy = tmp_path / "copy"
    with held(copy / "default/0/outputs"):
        assert await look(copy) == whole
        assert "00000001.seg" in names(copy, suffix=".seg")
    assert await look(copy) == whole
    assert "00000001.seg" not in names(copy, suffix=".seg")


async def test_what_was_moved_aside_goes_some_openings_later(tmp_path) -> None:
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        await ledger.append(*produce(0))
    (data / "default/0/outputs/00000001-00000009.out").write_bytes(b"never acknowledged")
    for _ in range(16):
        await look(data)
        assert names(data, "aside") == ["00000001-00000009.out"]
    await look(data)
    assert names(data, "aside") == []


@pytest.mark.parametrize("left", [0, 1, 10**6])
async def test_a_state_that_was_cut_short_leaves_no_file(fast_folder, small_segments, left) -> None:
    """It may be large, and tells a person nothing."""
    data, disk = fast_folder / "data", FailingDisk()
    disk.fails = lambda call, path: (
        errno.EIO if (call, path.suffix) == ("sync", ".tmp") and "out" in path.name else None
    )
    async with opened_at(data, create=True, disk=disk) as ledger:
        await ledger.append(*produce(0))
        with pytest.raises(LedgerDown):
            await ledger.collect(1, [b"state" * left])
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
        await ledger.collect(5, [b"seven" * 300, b"of them"])
        await ledger.append([b"last"], [])
        whole = await see(ledger)
    verdicts, rng = Verdicts(fast_folder, whole), random.Random(SEED)
    for file in damage_files(fast_folder):
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


async def test_predecessors_outlive_a_collection(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    ids = []
    for life in range(3):
        async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
            assert opened.predecessors == tuple(ids)
            ids.append(opened.ledger.mark.ledger)
            mark = await opened.ledger.append([b"life %d" % life], [])
            assert opened.collected == (life and mark.position - 1)
            await opened.ledger.collect(mark.position, [b"state %d" % life])
        accept(str(data))


async def test_dump_shows_a_collection_and_its_state_and_nothing_twice(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    await fill_and_collect(data)
    items = list(dump(str(data)))
    kinds = [item.kind for item in items]
    assert kinds[:4] == ["Ledger", "State", "Bytes", "Bytes"]
    assert [item.position for item in items if item.kind == "Bytes"] == [7, 7, 8, 9, 10]
    collected = next(item for item in items if item.kind == "Collected")
    assert (collected.fields["segment"], collected.fields["topics"]) == (4, [["t", 0, 0, 10]])
    assert kinds[-2:] == ["End", "Witness"]
    (data / "default/0" / "00000004.seg").unlink()
    assert [item.kind for item in dump(str(data))][-1] == "DAMAGED"
