"""A deleted ledger is moved aside whole; after a crash or a failing disk it exists or is deleted."""

import asyncio
import errno
import random
import shutil
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerBusy, LedgerDown, LedgerFull, OncegateError
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import accept, backup, open_log, restore, verify
from oncegate.ledgers.log.admin.backup import copy_ledger
from oncegate.ledgers.log.deleted import DELETED_NAME
from oncegate.ledgers.log.opening.recovery import LedgerPaths, inspect
from oncegate.ledgers.witness import End
from tests.support.crash_disk import Crashes, RecordingDisk, digest, materialize
from tests.support.ledger_tools import SEED, FailingDisk, QuietDisk, produce

NAME = "mail"
OLD, NEW = b"of the old one", b"of the new one"


async def make(data: Path, disk: RecordingDisk | None = None) -> bytes:
    """Creates a data folder with one namespace beside the default. Returns the id of its ledger."""
    async with open_log(str(data), create=True, disk=disk or QuietDisk()) as ledgers:
        await ledgers.create(NAME)
        async with ledgers.open(NAME) as opened:
            await opened.ledger.append([OLD], produce(0)[1])
            return opened.ledger.mark.ledger


async def entries_of(data: Path) -> list[bytes] | None:
    """Returns the entries of the namespace, or None if there is no such namespace."""
    async with open_log(str(data), disk=QuietDisk()) as ledgers:
        if NAME not in ledgers.names():
            return None
        async with ledgers.open(NAME) as opened:
            return [bytes(one.body) async for batch in opened.ledger.replay(1) for one in batch]


async def make_anew(data: Path) -> None:
    async with open_log(str(data), disk=QuietDisk()) as ledgers:
        await ledgers.create(NAME)
        async with ledgers.open(NAME) as opened:
            await opened.ledger.append([NEW], [])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_deleted_ledger_is_kept_byte_by_byte_beside_the_others(tmp_path: Path) -> None:
    data = tmp_path / "data"
    ledger = await make(data)
    before, witness = files(data / NAME), (tmp_path / f"data.witness/{NAME}.witness").read_bytes()
    for _ in range(2):
        async with open_log(str(data)) as ledgers:
            if NAME in ledgers.names():
                await ledgers.delete(NAME)
        aside = f"{NAME}.{ledger.hex()}"
        assert files(data / DELETED_NAME / aside) == before
        assert (tmp_path / "data.witness" / DELETED_NAME / f"{aside}.witness").read_bytes() == witness
        assert not (data / NAME).exists()


async def test_a_ledger_that_is_open_is_not_deleted(tmp_path: Path) -> None:
    await make(tmp_path / "data")
    async with open_log(str(tmp_path / "data")) as ledgers, ledgers.open(NAME) as opened:
        with pytest.raises(LedgerBusy):
            await ledgers.delete(NAME)
        await opened.ledger.append([b"goes on"], [])
    assert await entries_of(tmp_path / "data") == [OLD, b"goes on"]


async def test_a_name_can_be_used_and_deleted_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await make(data)
    for _ in range(2):
        async with open_log(str(data)) as ledgers:
            await ledgers.delete(NAME)
        await make_anew(data)
        assert await entries_of(data) == [NEW]
    assert len(list((data / DELETED_NAME).iterdir())) == 2


async def test_every_crash_leaves_the_ledger_whole_or_deleted_and_the_name_of_use(fast_folder: Path) -> None:
    root = fast_folder / "origin"
    root.mkdir()
    disk = RecordingDisk(root)
    await make(root / "data", disk)
    made = len(disk.ops)
    async with open_log(str(root / "data"), disk=disk) as ledgers:
        await ledgers.delete(NAME)
        disk.note("deleted")
    crashes, rng, found = Crashes(root), random.Random(SEED), {}
    deleted = False
    for number, op in enumerate(disk.ops):
        crashes.step(op)
        deleted = deleted or op.kind == "note"
        if number < made:
            continue
        for state in crashes.states(rng):
            key = digest(state)
            if key not in found:
                here = fast_folder / "crashed"
                materialize(state, root, here)
                found[key] = await entries_of(here / "data")
                if found[key] is None:
                    await make_anew(here / "data")
                    assert await entries_of(here / "data") == [NEW], f"seed {SEED}, after {op.kind} {op.path}"
                shutil.rmtree(here)
            assert found[key] in ((None,) if deleted else ([OLD], None)), f"seed {SEED}, after {op.kind} {op.path}"
    assert [OLD] in found.values()
    assert None in found.values()


async def delete_failing(data: Path, number: int, code: int) -> bool:
    """Deletes over a disk whose n-th call fails, and repeats it. Returns False if there are fewer calls."""
    disk = FailingDisk()
    async with open_log(str(data), disk=disk) as ledgers:
        at = len(disk.calls) + number
        disk.fails = lambda call, path: code if len(disk.calls) == at else None
        try:
            await ledgers.delete(NAME)
        except (LedgerDown, LedgerFull):
            copy, moved = data.with_name("copy"), not (data / NAME).exists()
            shutil.copytree(data, copy)
            shutil.copytree(data.with_name("data.witness"), copy.with_name("copy.witness"))
            assert await entries_of(copy) == (None if moved else [OLD])
            await ledgers.delete(NAME)
    return disk.failed_at > 0


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_wherever_the_disk_fails_a_repeat_or_a_start_ends_it(fast_folder: Path, code: int) -> None:
    number, has_failed = 0, True
    while has_failed:
        number += 1
        data = fast_folder / str(number) / "data"
        data.parent.mkdir()
        await make(data)
        has_failed = await delete_failing(data, number, code)
        assert await entries_of(data) is None
        await make_anew(data)
        assert await entries_of(data) == [NEW]
    assert number > 15, "the disk failed at each call"


async def test_a_full_disk_refuses_before_anything_is_moved_and_reports_that(tmp_path: Path) -> None:
    await make(tmp_path / "data")
    disk = FailingDisk()
    async with open_log(str(tmp_path / "data"), disk=disk) as ledgers:
        disk.fails = lambda call, path: errno.ENOSPC if path == tmp_path / "data" / NAME else None
        with pytest.raises(LedgerFull):
            await ledgers.delete(NAME)
        disk.fails = lambda call, path: None
        async with ledgers.open(NAME) as opened:
            assert opened.ledger.mark.position == 1


@pytest.mark.parametrize("cut_short", [False, True])
async def test_copies_and_verification_pass_over_what_was_deleted(
    tmp_path: Path, cut_short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    await make(data)
    async with open_log(str(data)) as ledgers:
        if cut_short:
            monkeypatch.setattr("oncegate.ledgers.log.data_dir.set_witness_aside", broken)
        try:
            await ledgers.delete(NAME)
        except OncegateError:
            assert cut_short
        monkeypatch.undo()
        assert [one.namespace for one in verify(str(data))] == ["default"]
        assert [one.namespace for one in backup(str(data), str(tmp_path / "copy"))] == ["default"]
    assert [one.namespace for one in restore(str(tmp_path / "copy"), str(tmp_path / "new"))] == ["default"]
    assert [line.partition(":")[0] for line in accept(str(data))] == ["default"]
    assert await entries_of(data) is None
    await make_anew(data)
    assert await entries_of(data) == [NEW]


def broken(*_: object) -> None:
    raise OSError(errno.EIO, "injected")


async def test_a_ledger_deleted_during_a_copy_or_verification_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    await make(data)

    def deleting(disk: Disk, paths: LedgerPaths, *given: object) -> object:
        if paths.namespace == NAME and paths.folder.exists():
            monkeypatch.undo()
            asyncio.run(delete(data))
        return inspect(disk, paths)

    def copying(disk: Disk, paths: LedgerPaths, end: End, target: Path) -> None:
        if paths.namespace == NAME:
            monkeypatch.undo()
            asyncio.run(delete(data))
        copy_ledger(disk, paths, end, target)

    monkeypatch.setattr("oncegate.ledgers.log.admin.verify.inspect", deleting)
    assert [one.namespace for one in await asyncio.to_thread(lambda: [*verify(str(data))])] == ["default"]
    await make_anew(data)
    monkeypatch.setattr("oncegate.ledgers.log.admin.backup.copy_ledger", copying)
    copied = await asyncio.to_thread(backup, str(data), str(tmp_path / "copy"))
    assert [one.namespace for one in copied] == ["default"]
    assert not (tmp_path / "copy" / NAME).exists()


async def delete(data: Path) -> None:
    async with open_log(str(data), disk=QuietDisk()) as ledgers:
        await ledgers.delete(NAME)
