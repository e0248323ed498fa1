"""Sorted runs beside a log: crashes, failing disks, and copies that exclude them."""

import errno
import random
import shutil
import threading
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerFenced, LedgerFull, OncegateError
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import accept, backup, restore, verify
from oncegate.ports import Runs
from oncegate.runs import local as runs_module
from tests.support.crash_disk import Crashes, LosingDisk, RecordingDisk, State, digest, materialize
from tests.support.ledger_tools import SEED, FailingDisk, Trouble, fill, look, names, produce, with_runs

FIRST = [b"first" * 300, b"", b"and more" * 400]
SECOND = [b"second" * 700, b"."]
OTHER = [b"other" * 100]
Held = dict[str, bytes]


@pytest.fixture(autouse=True)
def many_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "SYNC_BYTES", 1_000)


def held_by(runs: Runs) -> Held:
    return {name: bytes(runs.open(name)) for name in runs.names()}


async def runs_at(data: Path, disk: Disk | None = None) -> Held | OncegateError:
    """Returns the runs that a new process finds."""
    async with with_runs(data, disk=disk) as (_, runs):
        return held_by(runs)


async def filled(data: Path) -> None:
    await fill(data, [produce(0), produce(1)])
    async with with_runs(data) as (_, runs):
        runs.write("a", FIRST)


async def record(disk: RecordingDisk, data: Path) -> list[Held]:
    """Returns the runs after each acknowledged change."""
    async with with_runs(data, create=True, disk=disk) as (_, runs):
        after = [Held()]
        for change in (
            lambda: runs.write("a", FIRST),
            lambda: runs.write("b", OTHER),
            lambda: runs.write("a", SECOND),
            lambda: runs.remove("b"),
        ):
            if len(after) == 1:
                disk.note("begins")
            change()
            disk.note("acknowledged")
            after.append(held_by(runs))
    async with with_runs(data, disk=disk):
        return after


async def test_in_every_crash_state_a_run_is_whole_or_not_there(fast_folder) -> None:
    """Each prefix of the operations × pending names × writes whole, absent or torn. A removed run may come back."""
    root = fast_folder / "origin"
    root.mkdir()
    disk = RecordingDisk(root)
    after = await record(disk, root / "data")
    crashes, rng, tried, acknowledged = Crashes(root), random.Random(SEED), dict[bytes, Held](), -1
    found = set()
    for op in disk.ops:
        crashes.step(op)
        acknowledged += op.kind == "note"
        for state in crashes.states(rng) if acknowledged >= 0 else ():
            key = digest(state)
            if key not in tried:
                tried[key] = await opened(fast_folder, state)
            now = tried[key]
            allowed = after[acknowledged : acknowledged + 2]
            come_back = [held | {"b": b"".join(OTHER)} for held in allowed] if acknowledged >= 3 else []
            assert now in [*allowed, *come_back], f"seed {SEED}, after {op.kind} {op.path}: {now.keys()}"
            found.add(after.index(now) if now in after else "back")
    print("seed", SEED, len(tried), "different states of", len(disk.ops), "operations")
    assert found >= {0, 1, 2, 3, 4}
    assert len(tried) > 100


async def opened(folder: Path, state: State) -> Held:
    here = folder / "crashed"
    materialize(state, folder / "origin", here)
    try:
        found = await runs_at(here / "data")
        shard = here / "data/default/0/runs"
        assert not shard.is_dir() or not list(shard.glob("*.tmp")), "incomplete files are removed"
        assert isinstance(found, dict)
        return found
    finally:
        shutil.rmtree(here)


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename", "sync_folder"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
async def test_a_run_on_a_failing_disk_was_written_or_not_and_the_ledger_continues(tmp_path, call, code) -> None:
    """Each call of each kind fails once. After LedgerFull nothing has changed."""
    said = set()
    for number in range(1, 9):
        data, trouble = tmp_path / str(number), Trouble(call, number, code, "runs")
        async with with_runs(data, create=True, disk=FailingDisk(trouble)) as (one, runs):
            runs.write("a", FIRST)
            trouble.armed = True
            try:
                runs.write("a", SECOND)
                said.add("done")
            except LedgerFull:
                said.add("full")
                assert held_by(runs) == {"a": b"".join(FIRST)}
            except OSError as error:
                said.add("failed" if error.errno == code else str(error))
                assert bytes(runs.open("a")) in (b"".join(FIRST), b"".join(SECOND))
            trouble.armed = False
            assert names(data, "runs") == ["a"], "an abandoned run leaves no file"
            await one.ledger.append([b"on"], [])
            runs.write("a", OTHER)
            assert held_by(runs) == {"a": b"".join(OTHER)}
    full = code == errno.ENOSPC and call != "sync_folder"
    assert said == {"done", "full" if full else "failed"}


async def test_a_run_whose_sync_failed_is_never_shown(tmp_path) -> None:
    """The bytes are lost, and a second sync would succeed."""
    root = tmp_path / "root"
    root.mkdir()
    disk = LosingDisk(root)
    async with with_runs(root / "data", create=True, disk=disk) as (_, runs):
        runs.write("a", FIRST)
        disk.loses = "a.1-2.tmp"
        with pytest.raises(OSError, match="injected"):
            runs.write("a", SECOND)
        assert held_by(runs) == {"a": b"".join(FIRST)}
        crashes = Crashes(root)
        for op in disk.ops:
            crashes.step(op)
    for number, state in enumerate(crashes.states(random.Random(SEED))):
        materialize(state, root, tmp_path / str(number))
        assert await runs_at(tmp_path / str(number) / "data") == {"a": b"".join(FIRST)}


async def test_runs_are_no_part_of_a_backup_nor_of_what_is_verified(tmp_path) -> None:
    data = tmp_path / "data"
    await filled(data)
    (data / "default/0/runs/a").write_bytes(b"damaged")
    assert [(one.namespace, one.position) for one in verify(str(data))] == [("default", 2)]
    backup(str(data), str(tmp_path / "backup"))
    restore(str(tmp_path / "backup"), str(tmp_path / "restored"))
    assert not list(tmp_path.glob("backup/**/runs"))
    assert await look(tmp_path / "restored") == await look(data)
    assert await runs_at(tmp_path / "restored") == {}


async def test_an_older_copy_that_is_accepted_has_no_runs_of_what_it_lost(tmp_path) -> None:
    """The runs would report ids as written that the ledger does not know."""
    data = tmp_path / "data"
    await filled(data)
    shutil.copytree(data, tmp_path / "older")
    await fill(data, [produce(2)])
    shutil.rmtree(data)
    (tmp_path / "older").rename(data)
    accept(str(data))
    assert await runs_at(data) == {}
    assert len((await look(data)).entries) == 2


async def test_files_that_are_no_runs_are_not_listed(tmp_path) -> None:
    data = tmp_path / "data"
    await filled(data)
    for name in ("b.1-1.tmp", "Notes", ".hidden", "ä"):
        (data / "default/0/runs" / name).write_bytes(b"?")
    assert await runs_at(data) == {"a": b"".join(FIRST)}
    assert sorted(names(data, "runs")) == [".hidden", "Notes", "a", "ä"], "only incomplete files are removed"


async def test_a_data_folder_that_was_moved_is_not_written_to(tmp_path) -> None:
    data = tmp_path / "data"
    await filled(data)
    async with with_runs(data) as (_, runs):
        data.rename(tmp_path / "moved")
        for call in (runs.names, lambda: runs.write("b", OTHER), lambda: runs.remove("a")):
            with pytest.raises(LedgerFenced, match="no longer the folder"):
                call()
    assert not data.exists()
    (tmp_path / "moved").rename(data)
    assert await runs_at(data) == {"a": b"".join(FIRST)}


class HeldDisk(Disk):
    """Begins each removal and renaming, and ends it when the test releases it."""

    def __init__(self) -> None:
        self.begun, self.going_on = threading.Event(), threading.Event()

    def unlink(self, path: Path) -> None:
        self._wait()
        super().unlink(path)

    def rename(self, old: Path, new: Path) -> None:
        self._wait()
        super().rename(old, new)

    def _wait(self) -> None:
        self.begun.set()
        assert self.going_on.wait(30)


@pytest.mark.parametrize("change", ["remove", "write"])
def test_a_change_of_names_that_is_under_way_has_ended_when_the_folder_is_let_go_of(
    tmp_path: Path, change: str
) -> None:
    """The next owner of the folder uses the same names again."""
    disk = HeldDisk()
    runs = runs_module.LocalRuns(disk, tmp_path, 1, lambda: None)
    (tmp_path / "a").write_bytes(b"old")
    work, arguments = (runs.remove, ("a",)) if change == "remove" else (runs.write, ("a", [b"new"]))
    changing = threading.Thread(target=work, args=arguments)
    changing.start()
    assert disk.begun.wait(30)
    closing = threading.Thread(target=runs.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    disk.going_on.set()
    closing.join(30)
    names = sorted(path.name for path in tmp_path.iterdir())
    changing.join(30)
    assert names == ([] if change == "remove" else ["a"])
    for late in (lambda: runs.remove("a"), lambda: runs.write("a", [b"late"])):
        with pytest.raises(LedgerFenced, match="was closed; nothing was written"):
            late()
