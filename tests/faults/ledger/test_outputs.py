"""The life of output files: creation, appends, removal."""

import hashlib
import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDamaged, OffsetTrimmed
from oncegate.ledgers.disk import BLOCK_BYTES
from oncegate.ledgers.log import open_log
from oncegate.ledgers.log import writer as log_writer
from oncegate.ledgers.log.files import outputs
from oncegate.ports import DropRanges, TrimRanges
from oncegate.testing.ledger_places import replayed
from tests.support.crash_disk import Crashes, RecordingDisk, materialize
from tests.support.ledger_tools import SEED, QuietDisk, Seen, fill, look, look_quickly, produce, publish, range_of, see


def files(data: Path, folder: str = "outputs") -> list[str]:
    return sorted(path.name for path in (data / "default/0" / folder).iterdir())


async def settled(ledger) -> None:
    """Appends once more, because the writer removes files after the answer."""
    await ledger.append([b"-"], [])


async def test_a_stream_shares_a_file_and_ranges_begin_on_blocks(tmp_path) -> None:
    data = tmp_path / "data"
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append([], [range_of(1, stream="a"), range_of(2, stream="b"), range_of(3, stream="a")])
        await opened.ledger.append([], [range_of(4, stream="a")])
    assert files(data) == ["00000001-00000001.out", "00000001-00000002.out"]
    content = (data / "default/0/outputs/00000001-00000001.out").read_bytes()
    assert [content[at : at + 600] for at in (0, BLOCK_BYTES, 2 * BLOCK_BYTES)] == [
        range_of(number).data for number in (1, 3, 4)
    ]


async def test_a_stream_continues_in_a_new_file_once_one_is_full_to_the_last_block(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(outputs, "FILE_BYTES", 2 * BLOCK_BYTES)
    data = tmp_path / "data"
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        for number, count in ((1, 1), (2, 1), (3, 2)):
            await opened.ledger.append([], [range_of(number, stream="a")])
            assert len(files(data)) == count


async def test_a_range_is_known_by_the_digest_that_came_with_it(tmp_path) -> None:
    """The receiver of rows has already checked the sender's digest, so it is not computed again."""
    told = hashlib.sha256(range_of(1).data).digest()
    data = tmp_path / "data"
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        await opened.ledger.append([], [replace(range_of(1), sha256=told), publish(0, 1)])
        assert [chunk.data for chunk in await opened.outputs.fetch("t", 0, 0, 1, 1 << 40)] == [range_of(1).data]
        await opened.ledger.append([], [replace(range_of(2), sha256=told), publish(1, 2)])
        with pytest.raises(LedgerDamaged, match="not those that were written"):
            await opened.outputs.fetch("t", 0, 1, 1, 1 << 40)


async def test_a_file_goes_when_its_last_range_does(tmp_path) -> None:
    data = tmp_path / "data"
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        ledger = opened.ledger
        await ledger.append([], [range_of(1, stream="a"), range_of(2, stream="a"), range_of(3, stream="b")])
        await ledger.append([], [DropRanges((range_of(1).range_id,)), publish(0, 3)])
        await settled(ledger)
        assert len(files(data)) == 2
        await ledger.append([], [DropRanges((range_of(2).range_id,))])
        await settled(ledger)
        assert files(data) == ["00000001-00000002.out"]
        await ledger.append([], [range_of(4, stream="a"), publish(1, 4)])
        assert files(data) == ["00000001-00000002.out", "00000001-00000003.out"], "a name is never used again"
        await ledger.append([], [TrimRanges("t", 0, 1)])
        await settled(ledger)
        assert files(data) == ["00000001-00000003.out"]
    assert files(data, "aside") == []


@pytest.mark.parametrize("first", ["trim", "write"])
async def test_a_file_whose_last_range_goes_with_an_append_that_adds_one_stays(tmp_path, first: str) -> None:
    """A trim and a write to the same stream, in one append and in either order: acknowledged rows are there."""
    data = tmp_path / "data"
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        ledger = opened.ledger
        await ledger.append([], [range_of(1, stream="a"), publish(0, 1)])
        trim, write = [TrimRanges("t", 0, 1)], [range_of(2, stream="a"), publish(1, 2)]
        await ledger.append([], trim + write if first == "trim" else write + trim)
        await settled(ledger)
        assert files(data) == ["00000001-00000001.out"]
        assert [chunk.data for chunk in await opened.outputs.fetch("t", 0, 1, 1, 1 << 40)] == [range_of(2).data]
    async with open_log(str(data), disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        assert [chunk.data for chunk in await opened.outputs.fetch("t", 0, 1, 1, 1 << 40)] == [range_of(2).data]


async def test_a_new_owner_appends_to_no_older_file(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, [produce(0)])
    await fill(data, [produce(1)])
    assert files(data) == ["00000001-00000001.out", "00000002-00000001.out"]


async def test_a_file_that_no_frame_names_is_moved_aside_and_kept(tmp_path) -> None:
    data = tmp_path / "data"
    whole = await fill(data, [produce(0)])
    (data / "default/0/outputs/00000001-00000009.out").write_bytes(b"rows that were never acknowledged")
    assert await look(data) == whole
    assert files(data) == ["00000001-00000001.out"]
    assert files(data, "aside") == ["00000001-00000009.out"]


async def test_a_file_that_was_dropped_and_not_removed_goes_at_the_next_opening(tmp_path) -> None:
    data = tmp_path / "data"
    await fill(data, [([], [range_of(1)])])
    kept = tmp_path / "kept"
    shutil.copy(data / "default/0/outputs/00000001-00000001.out", kept)
    await fill(data, [([], [DropRanges((range_of(1).range_id,))])])
    shutil.copy(kept, data / "default/0/outputs/00000001-00000001.out")
    await look(data)
    assert files(data) + files(data, "aside") == []


@pytest.mark.parametrize("missing", [0, 1])
async def test_a_file_that_lacks_the_last_byte_of_a_named_range_is_refused(tmp_path, missing: int) -> None:
    data = tmp_path / "data"
    await fill(data, [([], [range_of(1)]), ([b"a"], [range_of(2), publish(0, 1, 2)])])
    (name,) = files(data)
    os.truncate(data / "default/0/outputs" / name, BLOCK_BYTES + len(range_of(2).data) - missing)
    found = await look(data)
    assert (isinstance(found, Seen), "ends at byte" in str(found)) == (not missing, bool(missing))


def test_a_stream_that_is_closed_is_counted_no_more_whatever_closed_it(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(outputs, "FILE_BYTES", BLOCK_BYTES)
    for most, close in ((0, "close"), (0, "roll_back"), (1, "settle")):
        streams = outputs.OpenStreams(most)
        writer = outputs.OutputWriter(QuietDisk(), tmp_path, most + 1 + len(close), streams)
        for number in range(2):
            writer.write([range_of(number, stream="a")])
            if close == "settle":
                writer.settle()  # the first file is full, and the next range closes it
                assert not streams.too_many
        if close != "settle":
            assert streams.too_many
            getattr(writer, close)()
        assert not streams.too_many
        writer.close()


async def test_streams_beyond_the_limit_start_new_files(tmp_path, monkeypatch) -> None:
    """Descriptors are bounded; writes through a closed one are not lost."""
    monkeypatch.setattr(outputs, "STREAMS_OPEN_MAX", 2)
    monkeypatch.setattr(outputs, "FILE_BYTES", 3 * BLOCK_BYTES)
    data, rng = tmp_path / "data", random.Random(SEED)
    appends = []
    for number in range(40):
        name = rng.choice("abcd")
        appends.append(([b"entry %d" % number], [range_of(number, stream=name), publish(number, number)]))
    seen = await fill(data, appends)
    assert [chunk.data for chunk in seen.chunks] == [range_of(number).data for number in range(40)]
    assert await look(data) == seen
    assert 14 < len(files(data)) < 40


async def test_entries_are_replayed_from_any_position_over_many_segments(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_writer, "SEGMENT_BYTES", 3 * BLOCK_BYTES)
    data = tmp_path / "data"
    appends = [([b"%d %d" % (number, part) for part in range(number % 4)], []) for number in range(20)]
    await fill(data, appends)
    async with open_log(str(data), disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        for number in range(3):
            await opened.ledger.append([b"later %d" % number], [])
        every = await replayed(opened.ledger)
        assert len(every) == 33
        for position in range(len(every) + 2):
            assert await replayed(opened.ledger, position) == every[max(0, position - 1) :]
        begun = opened.ledger.replay(1)
        await opened.ledger.append([b"during"], [])
        assert [one.body async for batch in begun for one in batch][:33] == [one.body for one in every]


async def test_a_fetch_that_meets_a_trim_gets_an_error(tmp_path, monkeypatch) -> None:
    data = tmp_path / "data"
    async with open_log(str(data), create=True, disk=QuietDisk()) as ledgers, ledgers.open("default") as opened:
        ledger = opened.ledger
        await ledger.append(*produce(0))
        await ledger.append([], [range_of(1, stream="other"), publish(1, 1)])
        find, before = ledger._catalog.find, ledger._catalog.find("t", 0, 0, 9, 1 << 40)
        await ledger.append([], [TrimRanges("t", 0, 1)])
        await settled(ledger)
        answers = iter([before])
        monkeypatch.setattr(ledger._catalog, "find", lambda *where: next(answers, None) or find(*where))
        with pytest.raises(OffsetTrimmed) as trimmed:
            await ledger.fetch("t", 0, 0, 9, 1 << 40)
        assert trimmed.value.extra == {"low_offset": 1}


async def test_a_crash_while_a_namespace_is_made_leaves_it_whole_or_not_at_all(fast_folder) -> None:
    """Creating it again works after a crash at every operation, whatever is durable."""
    origin = fast_folder / "origin"
    origin.mkdir()
    whole = await fill(origin / "data", [produce(0)])
    disk = RecordingDisk(origin)
    async with open_log(str(origin / "data"), disk=disk) as ledgers:
        await ledgers.create("mail")
    crashes, rng, made = Crashes(origin), random.Random(SEED), {True: 0, False: 0}
    for number, op in enumerate(disk.ops):
        crashes.step(op)
        if op.kind == "exists":
            continue
        for variant, state in enumerate(crashes.states(rng)):
            if variant % 5:
                continue
            here = fast_folder / f"{number} {variant}"
            materialize(state, origin, here)
            assert look_quickly(here / "data") == whole
            async with open_log(str(here / "data"), disk=QuietDisk()) as ledgers:
                made["mail" in ledgers.names()] += 1
                await ledgers.create("mail")
                async with ledgers.open("mail") as opened:
                    await opened.ledger.append([b"hello"], [])
            async with open_log(str(here / "data"), disk=QuietDisk()) as ledgers, ledgers.open("mail") as opened:
                assert await see(opened.ledger) == Seen((b"hello",), ())
            shutil.rmtree(here)
    print("seed", SEED, made)
    assert min(made.values()) > 0
