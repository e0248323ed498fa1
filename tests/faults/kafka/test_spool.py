"""The spool of stages: kept until dropped, missing where a byte differs, nothing kept where the disk is full."""

import errno
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from oncegate.core.errors import LedgerDown, LedgerFull, MissingStage, QuotaExceeded
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.kafka.rows.pieces import pieces_of, rows_of
from oncegate.ledgers.kafka.rows.spool import PIECE_BYTES_MAX, Spool, Spooled
from tests.support.crash_disk import RecordingDisk

SEED = int(os.environ.get("ONCEGATE_SEED", "20261123"))
RANGE = bytes(range(16))
PIECES = [b"one", b"", b"three" * 1_000]


def opened(folder: Path, generation: int = 3, quota_bytes: int = 1 << 20, disk: Disk | None = None) -> Spool:
    spool = Spool(folder, generation, quota_bytes, disk)
    spool.open()
    return spool


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/*") if path.is_file())


def test_what_is_kept_is_read_piece_by_piece_also_by_the_same_generation_opened_anew(tmp_path: Path) -> None:
    spooled = opened(tmp_path).write(RANGE, iter(PIECES))
    again = opened(tmp_path)
    assert list(again.read(spooled)) == PIECES
    assert again.size_bytes == spooled.size_bytes == files(tmp_path)[0].stat().st_size
    assert spooled.pieces == 3


def test_a_range_without_pieces_is_one(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    assert list(spool.read(spool.write(RANGE, []))) == []


def test_it_is_synced_with_its_name_before_it_is_told(tmp_path: Path) -> None:
    disk = RecordingDisk(tmp_path)
    spool = opened(tmp_path / "spool", disk=disk)
    spool.write(RANGE, PIECES)
    kinds = [op.kind for op in disk.ops]
    assert kinds[-2:] == ["sync", "sync_folder"]
    assert disk.ops[-2].file == max(op.file for op in disk.ops if op.kind == "write")


def test_every_altered_byte_and_every_cut_is_a_missing_stage(tmp_path: Path) -> None:
    spool, pieces = opened(tmp_path), [b"abc", b"", b"defgh"]
    spooled = spool.write(RANGE, pieces)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for damaged in (whole[:place], _flipped(whole, place)):
            path.write_bytes(damaged)
            got = []
            with pytest.raises(MissingStage, match="write the batch again"):
                got.extend(spool.read(spooled))
            assert got == pieces[: len(got)], "what was handed over is right"


def test_pieces_that_change_places_or_files_are_a_missing_stage(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spooled, other = spool.write(RANGE, [b"aaaa", b"bbbb"]), spool.write(bytes(16), [b"aaaa", b"bbbb"])
    mine, others = tmp_path / f"{3:020d}" / RANGE.hex(), tmp_path / f"{3:020d}" / bytes(16).hex()
    whole = mine.read_bytes()
    half = (len(whole) - 8) // 2
    for wrong in (whole[:8] + whole[8 + half :] + whole[8 : 8 + half], others.read_bytes()):
        mine.write_bytes(wrong)
        with pytest.raises(MissingStage):
            list(spool.read(spooled))
    assert list(spool.read(other)) == [b"aaaa", b"bbbb"]


def test_a_length_that_is_damaged_asks_for_no_memory(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spooled = spool.write(RANGE, [b"a" * 100])
    (path,) = files(tmp_path)
    whole = bytearray(path.read_bytes())
    whole[8:12] = (PIECE_BYTES_MAX + 1).to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.raises(MissingStage, match="piece 0 is not what was written"):
        list(spool.read(spooled))


def test_what_is_told_of_another_content_is_a_missing_stage(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spooled = spool.write(RANGE, PIECES)
    fewer = Spooled(RANGE, 2, spooled.size_bytes, spooled.sha256)
    with pytest.raises(MissingStage, match="not those that were written"):
        list(spool.read(fewer))


def test_the_quota_is_told_and_nothing_of_what_does_not_fit_is_kept(tmp_path: Path) -> None:
    spool = opened(tmp_path, quota_bytes=1_000)
    kept = spool.write(RANGE, [b"x" * 600])
    with pytest.raises(QuotaExceeded, match="of the 1000 that they may"):
        spool.write(bytes(16), [b"x" * 100, b"x" * 300])
    assert (spool.size_bytes, len(files(tmp_path))) == (kept.size_bytes, 1)
    spool.drop([RANGE])
    assert spool.size_bytes == 0
    spool.write(bytes(16), [b"x" * 100, b"x" * 300])


class FailingDisk(Disk):
    """Fails the n-th write, sync or sync of a folder from now on, with this number of an error."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.number, self.left = kind, number, 1 << 30

    def _one(self, kind: str) -> None:
        if kind == self.kind:
            self.left -= 1
            if self.left == 0:
                raise OSError(self.number, os.strerror(self.number))

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        if self.kind == "write" and self.left == 1:
            super().write(fd, [parts[0][:1]], offset)
        self._one("write")
        super().write(fd, parts, offset)

    def sync(self, fd: int) -> None:
        self._one("sync")

    def sync_folder(self, path: Path) -> None:
        self._one("sync_folder")

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        self._one("create")
        return super().create(path, mode=mode)


@pytest.mark.parametrize(("kind", "left"), [("create", 1), ("write", 1), ("write", 3), ("sync", 1), ("sync_folder", 1)])
@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, LedgerFull), (errno.EDQUOT, LedgerFull), (errno.EIO, LedgerDown)]
)
def test_a_disk_that_is_full_or_fails_keeps_nothing_and_gives_its_room_back(
    tmp_path: Path, kind: str, left: int, number: int, error: type[Exception]
) -> None:
    disk = FailingDisk(kind, number)
    spool = opened(tmp_path, disk=disk)
    disk.left = left
    with pytest.raises(error, match="the stage was not kept"):
        spool.write(RANGE, PIECES)
    assert (files(tmp_path), spool.size_bytes) == ([], 0)
    assert list(spool.read(spool.write(RANGE, PIECES))) == PIECES


def test_pieces_that_cannot_be_made_keep_nothing(tmp_path: Path) -> None:
    def broken() -> object:
        yield b"x"
        raise MissingStage("gone")

    spool = opened(tmp_path)
    with pytest.raises(MissingStage, match="gone"):
        spool.write(RANGE, broken())  # type: ignore[arg-type]
    assert (files(tmp_path), spool.size_bytes) == ([], 0)


def test_what_is_dropped_is_gone_and_dropping_it_again_is_nothing(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spooled = spool.write(RANGE, PIECES)
    spool.drop([RANGE, bytes(16)])
    spool.drop([RANGE])
    with pytest.raises(MissingStage, match="cannot be read"):
        list(spool.read(spooled))
    assert (files(tmp_path), spool.size_bytes) == ([], 0)


def test_older_generations_stay_and_count_until_the_owner_wipes_them(tmp_path: Path) -> None:
    older = opened(tmp_path, 3).write(RANGE, PIECES)
    spool = opened(tmp_path, 7)
    mine = spool.write(RANGE, [b"mine"])
    newer = opened(tmp_path, 8).write(RANGE, [b"newer"])
    (tmp_path / "notes").write_text("somebody else's")
    assert spool.size_bytes == older.size_bytes + mine.size_bytes
    spool.wipe(7)
    assert spool.size_bytes == mine.size_bytes
    assert list(spool.read(mine)) == [b"mine"]
    assert list(opened(tmp_path, 8).read(newer)) == [b"newer"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{7:020d}", f"{8:020d}", "notes"]
    spool.wipe(7)


def test_rows_of_an_older_generation_are_never_taken_for_those_of_this_one(tmp_path: Path) -> None:
    spooled = opened(tmp_path, 3).write(RANGE, PIECES)
    with pytest.raises(MissingStage):
        list(opened(tmp_path, 4).read(spooled))


def test_pieces_hold_all_rows_in_order_and_each_is_small() -> None:
    rng = np.random.default_rng(SEED)
    lengths = np.where(rng.random(3_000) < 0.01, 40_000, 50).tolist()
    table = pa.table({"value": [rng.bytes(length) for length in lengths], "row": range(3_000)})
    pieces = list(pieces_of(table.schema, table.to_batches(max_chunksize=1_000), 30_000))
    read = [batch for piece in pieces for batch in rows_of(piece)[1]]
    assert pa.Table.from_batches(read).equals(table), f"seed {SEED}"
    assert all(len(piece) < 31_000 or rows_of(piece)[1][0].num_rows == 1 for piece in pieces)


_PEAK = """
import resource, sys
from pathlib import Path
import numpy as np, pyarrow as pa
from oncegate.ledgers.kafka.rows.pieces import pieces_of
from oncegate.ledgers.kafka.rows.spool import Spool
from oncegate.ledgers.kafka.rows.writer import Piece, Target, _next_encoded

folder, size = Path(sys.argv[1]), int(sys.argv[2])
values = pa.array([b"x" * 1_000] * 16_000)
def pieces():
    for turn in range(size // 16_000_000):
        table = pa.table({"value": values})
        yield from pieces_of(table.schema, table.to_batches())
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
spool = Spool(folder, 1, 4 << 30)
spool.open()
target = Target("t", {"t": 4}, 0)
def once(pieces):
    spooled = spool.write(bytes(16), pieces)
    records, found = 0, (Piece(data) for data in spool.read(spooled))
    while (batches := _next_encoded(found, target, 0)) is not None:
        records += sum(batch.encoded.record_count() for batch in batches)
    spool.drop([bytes(16)])
    return spooled.size_bytes, records
import itertools
once(itertools.islice(pieces(), 8))
before = peak()
kept, records = once(pieces())
print(kept, records, peak() - before)
"""


@pytest.mark.slow
def test_a_gigabyte_goes_through_the_spool_and_the_encoder_in_a_few_mebibytes(tmp_path: Path) -> None:
    size = 1 << 30
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(tmp_path), str(size)], capture_output=True, text=True, check=True
    )
    kept, records, more_kib = map(int, done.stdout.split())
    assert kept > 1_000_000_000
    assert records == size // 16_000_000 * 16_000
    assert more_kib < 64 << 10, f"{more_kib} KiB more than what eight pieces took"


def test_a_walk_keeps_what_it_kept(tmp_path: Path) -> None:
    walk, spool, kept = random.Random(SEED), opened(tmp_path), {}
    for step in range(200):
        if kept and walk.random() < 0.4:
            range_id = walk.choice(sorted(kept))
            spool.drop([range_id])
            del kept[range_id]
        else:
            range_id = step.to_bytes(16, "big")
            pieces = [walk.randbytes(walk.randrange(400)) for _ in range(walk.randrange(4))]
            kept[range_id] = spool.write(range_id, pieces), pieces
    assert all(list(spool.read(spooled)) == pieces for spooled, pieces in kept.values()), f"seed {SEED}"
    assert spool.size_bytes == sum(spooled.size_bytes for spooled, _ in kept.values())


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :]
