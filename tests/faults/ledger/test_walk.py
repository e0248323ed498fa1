"""The rules of the walk, one by one, without the witness: the errors that a segment file reveals by itself."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log import writer as log_writer
from oncegate.ledgers.log.files.segments import Walk
from oncegate.ledgers.log.opening.scan import Scan
from tests.support.ledger_tools import fill

BODY = 100  # an offset in a frame that is certainly in its body


@pytest.fixture
async def shard(fast_folder, monkeypatch) -> Path:
    """Segment 1 (header only), segments 2 and 3 with three appends of one block each."""
    monkeypatch.setattr(log_writer, "SEGMENT_BYTES", 4 * BLOCK_BYTES)
    await fill(fast_folder / "data", [([b"e%d" % number * 100], []) for number in range(6)])
    return fast_folder / "data/default/0"


def entries(shard: Path) -> int:
    return sum(frame.header.count for frame, _ in Scan(Disk(), shard, shard / "outputs").over(Walk(Disk(), shard)))


def damage(shard: Path, segment: int, *changes: Callable[[bytearray], None]) -> None:
    path = shard / f"{segment:08}.seg"
    data = bytearray(path.read_bytes())
    for change in changes:
        change(data)
    path.write_bytes(data)


def flip(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1

    return change


def put(at: int, content: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at : at + len(content)] = content

    return change


async def test_a_whole_ledger_is_walked(shard) -> None:
    assert entries(shard) == 6


async def test_a_bad_frame_in_a_segment_that_another_follows_is_damage(shard) -> None:
    damage(shard, 2, flip(3 * BLOCK_BYTES + BODY))
    with pytest.raises(LedgerDamaged, match="entry 3, is bad, and a later segment follows"):
        entries(shard)


async def test_a_segment_that_ends_early_and_another_follows_is_damage(shard) -> None:
    damage(shard, 2, lambda data: data.__delitem__(slice(3 * BLOCK_BYTES, None)))
    with pytest.raises(LedgerDamaged, match="does not continue entry 2"):
        entries(shard)


@pytest.mark.parametrize("at", [0, 4, 20, 40, 55, BODY])
async def test_a_bad_last_frame_of_the_last_segment_is_a_torn_append(shard, at) -> None:
    damage(shard, 3, flip(3 * BLOCK_BYTES + at))
    assert entries(shard) == 5


async def test_zeros_and_an_unfinished_append_after_the_last_frame_are_cut(shard) -> None:
    damage(shard, 3, lambda data: data.extend(bytes(3 * BLOCK_BYTES)))
    assert entries(shard) == 6
    damage(shard, 3, put(5 * BLOCK_BYTES, b"second block of a frame whose first never landed"))
    assert entries(shard) == 6


async def test_a_later_whole_header_is_damage(shard) -> None:
    damage(shard, 3, flip(2 * BLOCK_BYTES), flip(3 * BLOCK_BYTES + BODY))
    with pytest.raises(LedgerDamaged, match="is bad, and a later one stands at byte 12288"):
        entries(shard)


async def test_bytes_beyond_the_extent_of_the_first_bad_frame_are_damage(shard) -> None:
    """The later header is damaged too: only data after a whole extent reveals it."""
    damage(shard, 3, flip(2 * BLOCK_BYTES + BODY), flip(3 * BLOCK_BYTES))
    with pytest.raises(LedgerDamaged, match="is bad, and more was written behind it"):
        entries(shard)


async def test_padding_that_is_not_zero_is_damage(shard) -> None:
    damage(shard, 3, flip(4 * BLOCK_BYTES - 1))
    with pytest.raises(LedgerDamaged, match="is followed by bytes that were never written"):
        entries(shard)


async def test_a_frame_of_another_history_is_damage(shard, fast_folder) -> None:
    """The same ledger, opened twice from one copy: each continued by itself, and their segments were mixed."""
    shutil.copytree(fast_folder / "data", fast_folder / "copy/data")
    shutil.copytree(fast_folder / "data.witness", fast_folder / "copy/data.witness")
    for folder in ("data", "copy/data"):
        await fill(fast_folder / folder, [([folder.encode()], []), ([b"same"], [])])
    other = (fast_folder / "copy/data/default/0/00000004.seg").read_bytes()
    damage(shard, 4, put(2 * BLOCK_BYTES, other[2 * BLOCK_BYTES :]))
    with pytest.raises(LedgerDamaged, match="entry 8, belongs to another history"):
        entries(shard)


@pytest.mark.parametrize("at", [0, 5, 100, 4_000])
@pytest.mark.parametrize("segment", [1, 2, 3])
async def test_a_segment_whose_header_block_changed_is_damage(shard, segment, at) -> None:
    """Headers are synced before a segment has its name, so even the last one's is never torn."""
    damage(shard, segment, flip(at))
    with pytest.raises(LedgerDamaged, match="has a bad header"):
        entries(shard)


@pytest.mark.parametrize("segment", [1, 2])
async def test_a_missing_segment_is_damage(shard, segment) -> None:
    (shard / f"{segment:08}.seg").unlink()
    with pytest.raises(LedgerDamaged, match=f"{segment:08}.seg is missing"):
        entries(shard)


async def test_a_folder_without_segments_is_damage(shard) -> None:
    for path in shard.glob("*.seg"):
        path.unlink()
    with pytest.raises(LedgerDamaged, match=r"00000001\.seg is missing"):
        entries(shard)
