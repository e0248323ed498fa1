"""A disk that fails during writes: each operation of an append, each error.

LedgerFull is raised only if nothing was written and the ledger continues; any other error is LedgerDown, permanently. A
file whose sync failed is never written or synced again. Reopened, the ledger has every acknowledged append, and the
failed one whole or not at all.
"""

import errno
from collections import Counter
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFull, OncegateError
from oncegate.ledgers.disk import BLOCK_BYTES, padded
from oncegate.ledgers.log import dump, open_log
from oncegate.ledgers.log import ledgers as ledgers_module
from oncegate.ledgers.log import writer as log_writer
from oncegate.ports import DropRanges, Ledger, TrimRanges, WriteRange
from tests.support.crash_disk import Crashes, LosingDisk, materialize
from tests.support.ledger_tools import Append, FailingDisk, Seen, Trouble, look, produce, publish, range_of, see

STAGE: Append = ([b"stage"], [range_of(70, stream="old"), range_of(71, stream="new"), range_of(72, stream="old")])
AFTER: Append = ([b"after"], [range_of(90), publish(2, 90)])


def output_sizes(data: Path) -> dict[str, int]:
    """Returns the sizes in whole blocks: a stream continues at the next block."""
    return {path.name: padded(path.stat().st_size) for path in (data / "default" / "0" / "outputs").iterdir()}


async def provoke(data: Path, trouble: Trouble, append: Append) -> tuple[Seen, OncegateError | None, FailingDisk]:
    """Makes two good appends, then `append` with the trouble. Returns the acknowledged content and the append's
    error."""
    disk = FailingDisk(trouble)
    async with open_log(str(data), create=True, disk=disk) as ledgers, ledgers.open("default") as opened:
        ledger = opened.ledger
        await ledger.append(*produce(0))
        await ledger.append([b"begun"], [range_of(60, stream="old"), range_of(61), publish(1, 61)])
        before, sizes = await see(ledger), output_sizes(data)
        trouble.armed = True
        disk.calls.clear()
        try:
            await ledger.append(*append)
            return await see(ledger), None, disk
        except OncegateError as error:
            failed = error
        if isinstance(failed, LedgerFull):
            assert await see(ledger) == before
            assert output_sizes(data) == sizes, "a refused append returns its room to the full disk"
            end = next(item for item in dump(str(data)) if item.kind == "End")
            assert end.fields["torn_bytes"] == 0, "undone bytes would remain after the next, shorter append"
            await ledger.append(*append)
            await ledger.append(*AFTER)
            ranges = sum(isinstance(output, WriteRange) for output in (*append[1], *AFTER[1]))
            grown = sum(output_sizes(data).values()) - sum(sizes.values())
            assert grown == ranges * BLOCK_BYTES, "streams go on where the refused append had begun"
            return await see(ledger), failed, disk
        after_failure = len(disk.calls)
        for call in (
            ledger.append(*AFTER),
            ledger.append([], [publish(2, 60)]),
            ledger.append([], [TrimRanges("t", 0, 1)]),
        ):
            with pytest.raises(LedgerDown):
                await call
        with pytest.raises(LedgerDown):
            await ledger.fetch("t", 0, 0, 1, 1 << 40)
        assert disk.calls[after_failure:] == []
        return before, failed, disk


def required(call: str) -> int:
    """Returns how often an append with outputs makes this call."""
    return {"sync": 3, "write": 5, "sync_folder": 1, "create": 1}[call]


@pytest.mark.parametrize(
    ("call", "number"),
    [(call, n + 1) for call in ("sync", "write", "sync_folder", "create") for n in range(required(call))],
)
@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS], ids=errno.errorcode.get)
async def test_any_error_of_an_append_takes_the_ledger_down(tmp_path, call, number, code) -> None:
    """Segment, output, stage and witness. Another process then finds the append whole or not at all."""
    trouble = Trouble(call, number, code)
    before, failed, _ = await provoke(tmp_path / "data", trouble, STAGE)
    assert isinstance(failed, LedgerDown), f"{trouble.hit}: {failed}"
    found = await look(tmp_path / "data")
    assert isinstance(found, Seen)
    assert found.chunks == before.chunks
    assert found.entries in (before.entries, (*before.entries, b"stage"))


async def test_the_table_of_calls_is_complete(tmp_path) -> None:
    """Otherwise a new sync could go untested."""
    _, failed, disk = await provoke(tmp_path / "data", Trouble("none", 0, 0), STAGE)
    assert failed is None
    counts = Counter(call for call, _ in disk.calls if call != "read")
    witness_syncs = sum(call == "sync" and path.suffix == ".witness" for call, path in disk.calls)
    counts["sync"] -= witness_syncs
    assert counts == {call: required(call) for call in ("sync", "write", "sync_folder", "create")}


@pytest.mark.parametrize("where", [".seg", "outputs", ".witness"])
async def test_a_file_whose_sync_failed_is_never_written_or_synced_again(tmp_path, monkeypatch, where) -> None:
    """A second sync would succeed with the bytes lost."""
    monkeypatch.setattr(ledgers_module, "WITNESS_SYNC_S", 0.01)
    trouble = Trouble("sync", 1, errno.EIO, where)
    disk = FailingDisk(trouble)

    async def append_until_it_fails(ledger: Ledger) -> None:
        for number in range(1_000):
            await ledger.append(*produce(number))
            trouble.armed = True

    async with open_log(str(tmp_path / "data"), create=True, disk=disk) as ledgers, ledgers.open("default") as opened:
        with pytest.raises(LedgerDown):
            await append_until_it_fails(opened.ledger)
    at = disk.calls.index(("sync", trouble.hit), disk.failed_at)
    assert not [call for call in disk.calls[at + 1 :] if call[0] in ("write", "sync") and call[1] == trouble.hit]
    assert isinstance(await look(tmp_path / "data"), Seen)


async def test_data_served_after_a_failed_sync_survives_a_power_failure(tmp_path) -> None:
    """After a failed sync the page cache still shows the frame, and recovery reads the page cache.

    Recovery therefore copies the last segment and syncs the copy: everything it serves must be on the disk itself.
    """
    root = tmp_path / "0"
    root.mkdir()
    disk = LosingDisk(root)
    async with open_log(str(root / "data"), create=True, disk=disk) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append([b"first"], [])
        disk.loses = ".seg"
        with pytest.raises(LedgerDown):
            await opened.ledger.append([b"second"], [])
    async with open_log(str(root / "data"), disk=disk) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append([b"third"], [])
        served = await see(opened.ledger)
    assert served.entries == (b"first", b"second", b"third")
    crashes = Crashes(root)
    for op in disk.ops:
        crashes.step(op)
    materialize(crashes.durable(), root, tmp_path / "1")
    assert await look(tmp_path / "1/data") == served


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("number", range(1, 5))
async def test_a_full_disk_refuses_and_the_ledger_continues(tmp_path, number, code) -> None:
    """Each of the writes (three ranges, the frame): half of it lands, and all of it is undone."""
    seen, failed, _ = await provoke(tmp_path / "data", Trouble("write", number, code), STAGE)
    assert isinstance(failed, LedgerFull)
    assert seen.entries == (b"entry 0", b"begun", b"stage", b"after")
    assert await look(tmp_path / "data") == seen
    assert len(list((tmp_path / "data/default/0/outputs").iterdir())) == 3, "an undone write leaves no file"


async def test_a_disk_without_room_for_a_new_file_refuses(tmp_path) -> None:
    seen, failed, _ = await provoke(tmp_path / "data", Trouble("create", 1, errno.ENOSPC), STAGE)
    assert isinstance(failed, LedgerFull)
    assert await look(tmp_path / "data") == seen


@pytest.mark.parametrize("call", ["create", "write"])
async def test_a_disk_without_room_for_a_new_segment_refuses(tmp_path, monkeypatch, call) -> None:
    monkeypatch.setattr(log_writer, "SEGMENT_BYTES", 3 * BLOCK_BYTES)
    seen, failed, _ = await provoke(tmp_path / "data", Trouble(call, 1, errno.ENOSPC, ".seg.tmp"), STAGE)
    assert isinstance(failed, LedgerFull)
    assert await look(tmp_path / "data") == seen


async def test_a_full_disk_that_cannot_take_back_is_down(tmp_path) -> None:
    full = Trouble("write", 4, errno.ENOSPC)
    stuck = Trouble("truncate", 1, errno.EIO)

    class Both(Trouble):
        def __call__(self, call: str, path: Path) -> int | None:
            full.armed = stuck.armed = self.armed
            return full(call, path) or stuck(call, path)

    before, failed, _ = await provoke(tmp_path / "data", Both("", 0, 0), STAGE)
    assert isinstance(failed, LedgerDown)
    found = await look(tmp_path / "data")
    assert isinstance(found, Seen)
    assert found == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("where", [".seg", "outputs"])
async def test_a_failed_sync_is_never_only_a_full_disk(tmp_path, where, code) -> None:
    """Delayed allocation reports a full disk at the sync, when part of the bytes may be durable."""
    trouble = Trouble("sync", 1, code, where)
    before, failed, _ = await provoke(tmp_path / "data", trouble, STAGE)
    assert isinstance(failed, LedgerDown)
    found = await look(tmp_path / "data")
    assert found.entries[: len(before.entries)] == before.entries


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename", "sync_folder", "open", "unlink"])
async def test_an_error_while_opening_loses_nothing(tmp_path, call) -> None:
    """Recovery writes too. It raises, and the next opening finds everything."""
    data = tmp_path / "data"
    seen, _, _ = await provoke(data, Trouble("none", 0, 0), STAGE)
    async with open_log(str(data)) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append([b"drops"], [DropRanges((range_of(71).range_id,))])
        seen = await see(opened.ledger)
    for number in range(1, 4):
        for code in (errno.EIO, errno.ENOSPC):
            (data / "default/0/outputs/00000009-00000001.out").write_bytes(b"never named")
            trouble = Trouble(call, number, code)
            trouble.armed = True
            found = await look(data, FailingDisk(trouble))
            if trouble.hit is None:
                assert found == seen
            else:
                assert isinstance(found, LedgerDown | LedgerFull) or found == seen, (trouble.hit, found)
            assert await look(data) == seen


async def test_an_unreadable_range_differs_from_a_damaged_one(tmp_path) -> None:
    trouble = Trouble("read", 1, errno.EIO, "outputs")
    disk = FailingDisk(trouble)
    async with open_log(str(tmp_path / "data"), create=True, disk=disk) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append(*produce(0))
        await opened.ledger.append(*produce(1))
        trouble.armed = True
        with pytest.raises(LedgerDown, match="cannot be read"):
            await opened.ledger.fetch("t", 0, 0, 9, 1 << 40)
        assert len(await opened.ledger.fetch("t", 0, 0, 9, 1 << 40)) == 2
        file = next((tmp_path / "data/default/0/outputs").iterdir())
        content = file.read_bytes()
        file.write_bytes(content[:700] + b"X" + content[701:])
        assert len(await opened.ledger.fetch("t", 0, 0, 9, 1 << 40)) == 2, "there is no range"
        file.write_bytes(content[:-1] + b"X")
        assert len(await opened.ledger.fetch("t", 0, 0, 1, 1 << 40)) == 1, "the other range is whole"
        with pytest.raises(LedgerDamaged, match="not those that were written"):
            await opened.ledger.fetch("t", 0, 0, 9, 1 << 40)
        file.unlink()
        with pytest.raises(LedgerDamaged, match="is missing"):
            await opened.ledger.fetch("t", 0, 0, 1, 1 << 40)
