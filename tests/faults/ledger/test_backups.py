"""Backups of ledgers in use, restored ledgers, and incomplete copies."""

import asyncio
import errno
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged, LedgerDown, LedgerFull, NotFound
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log import backup, open_log, restore, verify
from oncegate.ledgers.log import ledgers as ledgers_module
from oncegate.ports import DropRanges
from oncegate.testing.ledger_places import snapshot_of
from tests.support.crash_disk import Crashes, RecordingDisk, materialize
from tests.support.ledger_tools import (
    SEED,
    FailingDisk,
    QuietDisk,
    Trouble,
    everything,
    fill,
    look,
    names,
    opened_at,
    produce,
    publish,
    range_of,
    removed,
    see,
    settled,
)


def copy_of(data: Path, disk: Disk | None = None) -> Path:
    """Returns a data folder restored from a backup."""
    to = data.with_name("backup")
    backup(str(data), str(to), disk=disk or QuietDisk())
    restore(str(to), str(data.with_name("restored")), disk=QuietDisk())
    return data.with_name("restored")


async def test_a_restored_copy_has_everything_and_continues_under_a_new_id(data) -> None:
    whole = await fill(data, [produce(number) for number in range(8)])
    copied = backup(str(data), str(data.with_name("backup")))
    restored = restore(str(data.with_name("backup")), str(data.with_name("new")))
    assert [(one.namespace, one.position) for one in restored] == [("default", 8)]
    async with open_log(str(data.with_name("new"))) as ledgers, ledgers.open("default") as opened:
        assert await see(opened.ledger) == whole
        assert opened.history.predecessors == (copied[0].ledger,)
        assert opened.ledger.mark.ledger == restored[0].ledger != copied[0].ledger
        await opened.ledger.append(*produce(8))
    assert await look(data) == whole, "the original is as it was"


async def test_a_crash_in_a_restore_leaves_it_whole_or_not_there_and_whole_once_it_returned(fast_folder) -> None:
    whole = await fill(fast_folder / "data", [produce(number) for number in range(3)])
    backup(str(fast_folder / "data"), str(fast_folder / "backup"), disk=QuietDisk())
    root = fast_folder / "origin"
    root.mkdir()
    disk = RecordingDisk(root)
    restore(str(fast_folder / "backup"), str(root / "data"), disk=disk)
    crashes, restored = Crashes(root), []
    for number, op in enumerate(disk.ops):
        crashes.step(op)
        here = fast_folder / f"{number}"
        materialize(crashes.durable(), root, here)
        restored.append((here / "data").exists())
        if restored[-1]:
            assert await look(here / "data") == whole, f"after {op.kind} {op.path}"
        shutil.rmtree(here, ignore_errors=True)
    assert (restored[0], restored[-1]) == (False, True)


class Meanwhile(QuietDisk):
    """Runs `between` before the n-th read of a backup."""

    def __init__(self, number: int, between: Callable[[], None]) -> None:
        self.number = number
        self.between = between

    def read(self, path: Path, offset: int = 0, size_bytes: int | None = None) -> bytes:
        self.number -= 1
        if self.number == 0:
            self.between()
        return super().read(path, offset, size_bytes)


@pytest.mark.parametrize("number", range(1, 20))
async def test_a_backup_beside_a_writer_that_drops_and_collects_is_whole(data, number) -> None:
    """Everything happens just before the n-th read of the backup: the copy is the ledger at one moment."""
    async with opened_at(data, create=True) as ledger:
        for n in range(6):
            await ledger.append(*produce(n))
        await ledger.append([b"staged"], [range_of(50, stream="a"), range_of(51, stream="b")])
        seen = [await see(ledger)]

        async def write() -> None:
            await ledger.append([b"committed"], [publish(6, 50), DropRanges((range_of(51).range_id,))])
            seen.append(await see(ledger))
            await ledger.compact(8, snapshot_of(b"state"))
            seen.append(await see(ledger))
            await ledger.append([b"more"], [range_of(52, stream="c"), publish(7, 52)])
            seen.append(await see(ledger))
            await settled(ledger)

        loop = asyncio.get_running_loop()
        disk = Meanwhile(number, lambda: asyncio.run_coroutine_threadsafe(write(), loop).result(20))
        copy = await asyncio.to_thread(copy_of, data, disk)
        assert await look(copy) in seen
        assert len(seen) == 4, "the backup reads that often"
        assert await see(ledger) == seen[-1]
    assert await look(data) == seen[-1]


async def test_files_kept_for_a_backup_are_removed_after_it(data, monkeypatch) -> None:
    monkeypatch.setattr(ledgers_module, "WITNESS_SYNC_S", 0.01)
    async with opened_at(data, create=True) as ledger:
        for n in range(9):
            await ledger.append(*produce(n))
        held: list[int] = []

        async def compact() -> None:
            await ledger.compact(9, snapshot_of(b"state"))
            await settled(ledger)
            held.append(len(names(data, suffix=".seg")))

        loop = asyncio.get_running_loop()
        disk = Meanwhile(6, lambda: asyncio.run_coroutine_threadsafe(compact(), loop).result(20))
        await asyncio.to_thread(backup, str(data), str(data.with_name("backup")), None, disk)
        assert held[0] > 3
        await removed(ledger, data)


async def test_a_gateway_that_starts_during_a_backup_does_not_harm_it(data) -> None:
    whole = await fill(data, [produce(number) for number in range(5)])
    await fill(data, [([], [DropRanges(()), range_of(40)]), ([], [DropRanges((range_of(40).range_id,))])])

    async def start() -> None:
        assert await look(data) == whole

    loop = asyncio.get_running_loop()
    disk = Meanwhile(6, lambda: asyncio.run_coroutine_threadsafe(start(), loop).result(20))
    assert await look(await asyncio.to_thread(copy_of, data, disk)) == whole


async def test_a_backup_before_the_restart_after_a_power_failure_has_all_that_the_lagging_witness_has_not(data) -> None:
    await fill(data, [produce(0)])
    witness = data.with_name("data.witness") / "default.witness"
    lagging = witness.read_bytes()
    async with opened_at(data) as ledger:
        for number in range(1, 6):
            await ledger.append(*produce(number))
        whole = await see(ledger)
        shutil.copytree(data, data.with_name("left"))
        shutil.copytree(witness.parent, data.with_name("left.witness"))
    (data.with_name("left.witness") / "default.witness").write_bytes(lagging)
    assert await look(copy_of(data.with_name("left"))) == whole


async def test_a_backup_of_an_older_copy_is_refused(data) -> None:
    await fill(data, [produce(0)])
    shutil.copytree(data, data.with_name("older"))
    await fill(data, [produce(1)])
    shutil.copytree(data.with_name("data.witness"), data.with_name("older.witness"))
    with pytest.raises(LedgerDamaged, match=r"00000003\.seg is missing"):
        backup(str(data.with_name("older")), str(data.with_name("backup")))


async def test_a_backup_of_a_ledger_that_its_witness_knows_longer_or_otherwise_is_refused(data) -> None:
    """Within one segment too: lost acknowledged appends, and a different history."""
    async with opened_at(data, create=True) as ledger:
        await ledger.append(*produce(0))
        shutil.copytree(data, data.with_name("older"))
        shutil.copytree(data, data.with_name("other"))
        shutil.copytree(data.with_name("data.witness"), data.with_name("other.witness"))
        await ledger.append(*produce(1))
        shutil.copytree(data.with_name("data.witness"), data.with_name("older.witness"))
    with pytest.raises(LedgerDamaged, match="1 acknowledged entries would be forgotten"):
        backup(str(data.with_name("older")), str(data.with_name("b1")))
    async with opened_at(data.with_name("other")) as ledger:
        await ledger.append([b"another way"], [])
        await ledger.append([b"and on"], [])
    shutil.copy(data.with_name("data.witness") / "default.witness", data.with_name("other.witness"))
    with pytest.raises(LedgerDamaged, match="not what its witness"):
        backup(str(data.with_name("other")), str(data.with_name("b2")))


async def test_ledgers_of_a_backup_that_changed_places_are_refused(data) -> None:
    """Empty ledgers end alike; with another ledger's key every id would look new."""
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers:
        await ledgers.create("mail")
    to = data.with_name("backup")
    backup(str(data), str(to), disk=QuietDisk())
    for old, new in (("mail", "x"), ("default", "mail"), ("x", "default")):
        (to / old).rename(to / new)
    with pytest.raises(LedgerDamaged, match="not what the list of the backup says"):
        restore(str(to), str(data.with_name("new")), disk=QuietDisk())


class Corrupting(QuietDisk):
    """Flips a byte when it writes a file with this suffix."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._hit: set[int] = set()

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        fd = super().create(path, mode=mode)
        self._hit = self._hit | {fd} if path.name.endswith(self._suffix) else self._hit - {fd}
        return fd

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        data = bytearray(b"".join(parts))
        if fd in self._hit:
            data[-1] ^= 1
        super().write(fd, [data], offset)


@pytest.mark.parametrize("suffix", [".seg", "-00000001.out", "-00000002.out", "key.tmp"])
async def test_wrong_copies_are_never_given_their_name(data, source, suffix) -> None:
    with pytest.raises((LedgerDamaged, LedgerDown)):
        restore(str(source), str(data.with_name("new")), disk=Corrupting(suffix))
    assert not data.with_name("new").exists()


async def test_every_namespace_is_copied_and_a_collected_one_too(data) -> None:
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers:
        await ledgers.create("mail")
        async with ledgers.open("mail") as opened:
            for number in range(9):
                await opened.ledger.append(*produce(number))
            await opened.ledger.compact(8, snapshot_of(b"state"))
            whole = await see(opened.ledger)
    copy = copy_of(data)
    async with open_log(str(copy), disk=QuietDisk()) as ledgers, ledgers.open("mail") as opened:
        assert ledgers.names() == ["default", "mail"]
        assert await see(opened.ledger) == whole
        assert opened.history.compacted == 8
    assert {one.namespace: one.position for one in verify(str(copy))} == {"default": 0, "mail": 9}


async def test_a_copy_of_a_copy_remembers_all_its_predecessors(data) -> None:
    await fill(data, [produce(0)])
    ids = []
    for number in range(3):
        ids.append(backup(str(data), str(data.with_name(f"b{number}")))[0].ledger)
        restore(str(data.with_name(f"b{number}")), str(data.with_name(f"d{number}")))
        data = data.with_name(f"d{number}")
    async with open_log(str(data), disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        assert opened.history.predecessors == tuple(ids)


async def test_a_flip_anywhere_in_a_backup_is_refused_or_harmless(data, source) -> None:
    """Harmless: bytes between ranges, which nothing names."""
    rng, counts = random.Random(SEED), {"refused": 0, "harmless": 0}
    whole = await look(data)
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        content = path.read_bytes()
        for at in rng.sample(range(len(content)), min(12, len(content))):
            path.write_bytes(content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :])
            new = data.with_name("new")
            try:
                restore(str(source), str(new), disk=QuietDisk())
            except (LedgerDamaged, KeyMismatch):
                counts["refused"] += 1
                assert not new.exists(), "an incomplete copy never gets the name"
            else:
                counts["harmless"] += 1
                assert path.suffix == ".out"
                assert await look(new) == whole
            path.write_bytes(content)
            for left in (*data.parent.glob("*new*"),):
                shutil.rmtree(left)
    print("seed", SEED, counts)
    assert counts["refused"] > 60


async def test_a_file_missing_from_a_backup_is_refused(data, source) -> None:
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises((LedgerDamaged, NotFound)):
            restore(str(source), str(data.with_name("new")), disk=QuietDisk())
        path.write_bytes(content)
        for left in data.parent.glob("*new*"):
            shutil.rmtree(left)


async def test_a_non_empty_folder_is_never_restored_or_backed_up_into(data, source) -> None:
    before = everything(data.parent)
    with pytest.raises(BadRequest, match="exists and is not empty"):
        restore(str(source), str(data), str(data.with_name("w")))
    with pytest.raises(BadRequest, match="exists and is not empty"):
        backup(str(data), str(source))
    with pytest.raises(BadRequest, match="lie in one another"):
        backup(str(data), str(data / "copy"))
    (data.with_name("other.witness")).mkdir()
    (data.with_name("other.witness") / "LEDGERS").write_text("of another life")
    with pytest.raises(BadRequest, match="what the witness knows would be lost"):
        restore(str(source), str(data.with_name("other")))
    (data.with_name("NEW-third")).mkdir()
    with pytest.raises(BadRequest, match="remove it and try again"):
        restore(str(source), str(data.with_name("third")))
    assert everything(data.parent) == before


async def test_an_unfinished_backup_is_not_restored_and_a_backup_is_no_data_folder(data, source) -> None:
    found = await look(source)
    assert isinstance(found, BadRequest)
    (source / "BACKUP").unlink()
    assert isinstance(await look(source), LedgerDamaged)
    with pytest.raises(NotFound, match="no finished backup"):
        restore(str(source), str(data.with_name("new")))
    with pytest.raises(NotFound):
        backup(str(data.with_name("nothing")), str(data.with_name("to")))


async def test_a_damaged_ledger_is_not_backed_up(data) -> None:
    await fill(data, [produce(number) for number in range(5)])
    path = next((data / "default/0/outputs").iterdir())
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"!" + content[101:])
    with pytest.raises(LedgerDamaged, match="not those that were written"):
        backup(str(data), str(data.with_name("backup")))
    with pytest.raises(NotFound):
        restore(str(data.with_name("backup")), str(data.with_name("new")))


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename"])
async def test_a_full_disk_ends_a_restore_without_a_result_and_it_can_be_tried_again(data, source, call) -> None:
    new, whole = data.with_name("new"), await look(data)
    for number in range(1, 40):
        trouble = Trouble(call, number, errno.ENOSPC)
        trouble.armed = True
        try:
            restore(str(source), str(new), disk=FailingDisk(trouble))
        except LedgerFull:
            left = {path.name for path in data.parent.glob("*new*")}
            assert left <= {"new.witness"}
            continue
        assert trouble.hit is None
        assert await look(new) == whole
        return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename"])
async def test_a_full_disk_ends_a_backup_without_a_trace_and_it_can_be_tried_again(data, source, call) -> None:
    to, before = data.with_name("new") / "monday", sorted(data.parent.iterdir())
    for number in range(1, 40):
        trouble = Trouble(call, number, errno.ENOSPC)
        trouble.armed = True
        try:
            backup(str(data), str(to), disk=FailingDisk(trouble))
        except LedgerFull:
            assert sorted(data.parent.iterdir()) == before
            continue
        assert trouble.hit is None
        restore(str(to), str(data.with_name("restored")))
        return
    raise AssertionError("it never ended")
