"""Compaction on disk: deleted and retained files, files in use, and refusals."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator
from itertools import count, islice
from pathlib import Path

import msgspec
import pytest

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers import catalog, snapshotting
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.log import accept, dump, open_log
from oncegate.ledgers.log import ledgers as ledgers_module
from oncegate.ledgers.log import writer as writer_module
from oncegate.ledgers.log.files import frames
from oncegate.ledgers.log.files.garbage import held
from oncegate.ledgers.log.files.snapshots import SnapshotWriter
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ledgers.snapshot_pieces import PIECE_BYTES
from oncegate.ports import Chunk, TrimRanges
from oncegate.testing.ledger_places import snapshot_of
from tests.support.ledger_tools import (
    SEED,
    QuietDisk,
    Seen,
    entries_one_by_one,
    everything,
    judge,
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


async def fill_and_collect(data: Path) -> Seen:
    """Makes ten appends in several segments and compacts the first seven."""
    async with opened_at(data, create=True) as ledger:
        for number in range(10):
            await ledger.append(*produce(number))
        await ledger.compact(7, snapshot_of(b"seven" * 300, b"of them"))
        await settled(ledger)
        return await see(ledger)


async def test_whole_segments_are_given_back_and_the_old_state_is(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    await fill_and_collect(data)
    assert names(data, suffix=".seg") == ["00000004.seg", "00000005.seg"]
    assert len(names(data, "outputs")) == 2, "the topic's rows and the state"
    async with opened_at(data) as ledger:
        await ledger.append([b"more"], [])
        await ledger.compact(11, snapshot_of(b"eleven"))
        await settled(ledger)
        assert len(names(data, suffix=".seg")) == 1
        outputs = names(data, "outputs")
        assert "00000001-00000002.out" not in outputs, "the older state went when the newer one replaced it"
        assert "00000002-00000001.out" in outputs
        assert (await see(ledger)).entries == (b"eleven",)
    assert names(data, "aside") == []


async def test_a_snapshot_that_never_ends_leaves_no_file_and_the_ledger_continues(tmp_path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for number in range(5):
            yield bytes([number]) * PIECE_BYTES
        raise InterruptedError

    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        await ledger.append(*produce(0))
        before = list((data / "default/0/outputs").iterdir())
        with pytest.raises(InterruptedError):
            await ledger.compact(1, broken())
        assert list((data / "default/0/outputs").iterdir()) == before
        await ledger.append(*produce(1))
        await ledger.compact(2, snapshot_of(b"whole"))
        assert (await see(ledger)).entries == (b"whole",)


async def test_a_damaged_or_missing_state_is_refused_and_nothing_touched(fast_folder, small_segments) -> None:
    data, rng = fast_folder / "data", random.Random(SEED)
    whole = await fill_and_collect(data)
    path = next((data / "default/0/outputs").glob("*-00000002.out"))
    content = path.read_bytes()
    assert b"of them" in content
    # Between its ranges are zeros that nothing names.
    for at in rng.sample([at for at, byte in enumerate(content) if byte], 30):
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
    (refused,) = accept(str(data))
    assert isinstance(refused.error, LedgerDamaged)
    assert "is missing" in str(refused.error)
    assert isinstance(judge(data), LedgerDamaged)


async def test_a_first_segment_of_another_history_is_refused(fast_folder, small_segments) -> None:
    """Two ledgers from one copy: number and first position agree, the chain does not."""
    twins = [fast_folder / name for name in ("a", "b")]
    async with opened_at(twins[0], create=True) as ledger:
        await ledger.append([b"common"], [])
    for suffix in ("", ".witness"):
        shutil.copytree(fast_folder / f"a{suffix}", fast_folder / f"b{suffix}")
    for number, data in enumerate(twins):
        async with opened_at(data) as ledger:
            await ledger.append([b"of %d" % number], [])
            await ledger.compact(2, snapshot_of(b"state"))
            for later in range(4):
                await ledger.append([b"later %d" % later], [])
            await settled(ledger)
    segments = [names(data, suffix=".seg") for data in twins]
    assert segments[0] == segments[1]
    shutil.copy(twins[1] / "default/0" / segments[0][0], twins[0] / "default/0" / segments[0][0])
    assert isinstance(judge(twins[0]), LedgerDamaged)


@pytest.mark.parametrize("wrong", [{"previous_chain": bytes(16)}, {"first_position": 1}, {"segment": 1}])
async def test_a_collection_that_names_another_beginning_is_refused(fast_folder, small_segments, monkeypatch, wrong):
    """The walk alone would not detect it: each segment continues the previous one."""
    data = fast_folder / "data"
    named = writer_module.Compacted
    monkeypatch.setattr(
        writer_module, "Compacted", lambda *fields: msgspec.structs.replace(named(*fields), **wrong), raising=True
    )
    async with opened_at(data, create=True) as ledger:
        for number in range(7):
            await ledger.append(*produce(number))
        await ledger.compact(7, snapshot_of(b"state"))
        needed = ledger._writer.segments.end.segment
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
        await ledger.compact(7, snapshot_of(b"state"))
        await settled(ledger)
        whole = await see(ledger)
    for segment in ("00000001.seg", "00000003.seg"):
        shutil.copy(tmp_path / "kept" / segment, data / "default/0" / segment)
    assert await look(data) == whole
    assert names(data, suffix=".seg")[0] > "00000003.seg"
    assert await look(data) == whole


async def test_a_replay_under_way_keeps_what_it_reads(tmp_path, small_segments, monkeypatch) -> None:
    monkeypatch.setattr(ledgers_module, "WITNESS_SYNC_S", 0.01)
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        for number in range(10):
            await ledger.append(*produce(number))
        reading = entries_one_by_one(ledger)
        bodies = [(await anext(reading)).body]
        await ledger.compact(10, snapshot_of(b"first state"))
        again = entries_one_by_one(ledger)
        assert (await anext(again)).body == b"first state"
        await ledger.append([b"more"], [])
        await ledger.compact(11, snapshot_of(b"second state"))
        await settled(ledger)
        assert len(names(data, suffix=".seg")) > 4
        bodies += [one.body async for one in reading]
        assert bodies == [b"entry %d" % number for number in range(10)]
        assert [one.body async for one in again] == []
        await removed(ledger, data)
        assert (await see(ledger)).entries == (b"second state",)


async def test_files_that_are_held_are_removed_when_they_are_let_go(tmp_path, small_segments, monkeypatch) -> None:
    """The removal needs no further appends."""
    monkeypatch.setattr(ledgers_module, "WITNESS_SYNC_S", 0.01)
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        with held(data / "default/0/outputs"):
            for number in range(10):
                await ledger.append(*produce(number))
            await ledger.append([], [TrimRanges("t", 0, 10)])
            await ledger.compact(10, snapshot_of(b"state"))
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
            await ledger.compact(10, snapshot_of(b"state"))
            whole = await see(ledger)
            shutil.copytree(tmp_path / "data", tmp_path / "copy")
            shutil.copytree(tmp_path / "data.witness", tmp_path / "copy.witness")
    copy = tmp_path / "copy"
    with held(copy / "default/0/outputs"):
        assert await look(copy) == whole
        assert "00000001.seg" in names(copy, suffix=".seg")
    assert await look(copy) == whole
    assert "00000001.seg" not in names(copy, suffix=".seg")


async def test_files_moved_aside_are_removed_some_openings_later(tmp_path) -> None:
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        await ledger.append(*produce(0))
    (data / "default/0/outputs/00000001-00000009.out").write_bytes(b"never acknowledged")
    for _ in range(16):
        await look(data)
        assert names(data, "aside") == ["00000001-00000009.out"]
    await look(data)
    assert names(data, "aside") == []


async def test_predecessors_outlive_a_collection(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    ids = []
    for life in range(3):
        async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
            assert opened.history.predecessors == tuple(ids)
            ids.append(opened.ledger.mark.ledger)
            mark = await opened.ledger.append([b"life %d" % life], [])
            assert opened.history.compacted == (life and mark.position - 1)
            await opened.ledger.compact(mark.position, snapshot_of(b"state %d" % life))
        accept(str(data))


async def test_dump_shows_a_collection_and_its_state_and_nothing_twice(tmp_path, small_segments) -> None:
    data = tmp_path / "data"
    await fill_and_collect(data)
    items = list(dump(str(data)))
    kinds = [item.kind for item in items]
    assert kinds[:4] == ["Ledger", "State", "Bytes", "Bytes"]
    assert [item.position for item in items if item.kind == "Bytes"] == [7, 7, 8, 9, 10]
    compacted = next(item for item in items if item.kind == "Compacted")
    assert (compacted.fields["segment"], compacted.fields["topics"]) == (4, [["t", 0, 0, 10]])
    assert kinds[-2:] == ["End", "Witness"]
    (data / "default/0" / "00000004.seg").unlink()
    assert [item.kind for item in dump(str(data))][-1] == "DAMAGED"


async def test_a_ledger_is_closed_though_the_rest_of_a_snapshot_never_comes(tmp_path) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"first"
        begun.set()
        await never.wait()

    data = tmp_path / "data"
    async with asyncio.timeout(20):
        async with opened_at(data, create=True) as ledger:
            await ledger.append(*produce(0))
            compaction = asyncio.create_task(ledger.compact(1, endless()))
            await begun.wait()
        with pytest.raises(LedgerDown, match="being closed; it was not compacted"):
            await compaction
    assert not list((data / "default/0/outputs").glob("*.tmp"))
    async with opened_at(data) as ledger:
        assert len((await see(ledger)).entries) == 1


async def kept(ledger: LogLedger) -> list[Chunk]:
    return await ledger.fetch("t", 0, 3, 1_000, 1 << 30)


async def test_a_catalog_larger_than_a_frame_is_compacted_and_found_again(tmp_path, monkeypatch) -> None:
    """A frame that named each range was limited to 22.8 million ranges, after which compaction was impossible."""
    monkeypatch.setattr(frames, "BODY_BYTES_MAX", 1_000)
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        for number in range(60):
            await ledger.append(*produce(number))
        await ledger.append([b"trimmed"], [TrimRanges("t", 0, 3)])
        await ledger.append([b"staged"], [range_of(60)])
        for position in (61, 62):
            await ledger.compact(position, snapshot_of(b"state"))
        await settled(ledger)
        whole = await kept(ledger)
    async with opened_at(data) as ledger:
        assert await kept(ledger) == whole
        await ledger.append([b"published"], [publish(60, 60)])
        assert [chunk.first_offset for chunk in await kept(ledger)] == list(range(3, 61))


async def test_what_changes_while_the_catalog_is_written_down_is_in_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(snapshotting, "CHANGES_IN_FRAME", 3)
    monkeypatch.setattr(catalog, "CHANGES_PER_PIECE", 2)
    data, numbers, added, add = tmp_path / "data", count(), count(1), SnapshotWriter.add

    async def meanwhile(time: int) -> None:
        for number in islice(numbers, 4 if time < 4 else 1):
            await ledger.append(*produce(number))
        if time == 3:
            await ledger.append([], [TrimRanges("t", 0, 3)])

    def add_meanwhile(writer: SnapshotWriter, piece: list[bytes]) -> Location:
        if (time := next(added)) < 6:
            asyncio.run_coroutine_threadsafe(meanwhile(time), loop).result(60)
        return add(writer, piece)

    loop = asyncio.get_running_loop()
    async with opened_at(data, create=True) as ledger:
        for number in islice(numbers, 10):
            await ledger.append(*produce(number))
        monkeypatch.setattr(SnapshotWriter, "add", add_meanwhile)
        await ledger.compact(10, snapshot_of(b"state"))
        assert next(added) > 4, "what changed is written down too, and not all of it put into the frame"
        await settled(ledger)
        whole = await kept(ledger)
        assert [chunk.first_offset for chunk in whole] == list(range(3, next(numbers)))
    async with opened_at(data) as ledger:
        assert await kept(ledger) == whole


async def test_an_older_collection_whose_catalog_is_gone_is_not_needed(tmp_path) -> None:
    """After a crash between the removal of its file and that of its segment."""
    data = tmp_path / "data"
    async with opened_at(data, create=True) as ledger:
        for number in range(3):
            await ledger.append(*produce(number))
        await ledger.compact(3, snapshot_of(b"older"))
        older = names(data, "outputs")
        await ledger.append(*produce(3))
        with held(data / "default/0/outputs"):
            await ledger.compact(4, snapshot_of(b"newer"))
            await settled(ledger)
            whole = await see(ledger)
            shutil.copytree(data, tmp_path / "copy")
            shutil.copytree(tmp_path / "data.witness", tmp_path / "copy.witness")
    gone = tmp_path / "copy/default/0/outputs" / older[-1]
    gone.unlink()
    assert await look(tmp_path / "copy") == whole
