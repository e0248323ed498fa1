"""Sorted runs on a disk: read through memory maps, damaged, and without disk space."""

import os
from pathlib import Path

import numpy as np
import pytest

from oncegate.core.errors import LedgerFull
from oncegate.index.lsm.bloom import decode, make
from oncegate.index.lsm.run import BLOCK_BYTES, Run, RunDamaged, encode, merge, sorted_records
from oncegate.ledgers.log import open_log
from oncegate.runs import LocalRunFolders
from tests.support.ledger_tools import SEED, produce, see, with_runs

ARCHIVE = np.uint64(32)


def some_ids(seed: int, count: int, archive: int) -> np.ndarray:
    ids = np.random.default_rng([SEED, seed]).integers(0, 1 << 64, (count, 2), dtype=np.uint64)
    ids[:, 1] = ids[:, 1] & np.uint64(0xFFFF_FFFF) | np.uint64(archive) << ARCHIVE
    return sorted_records(ids)


async def test_ids_are_found_in_merged_and_filtered_runs_on_the_disk(tmp_path) -> None:
    """Written by one process, merged and saved again, opened by the next. An open run outlives its name."""
    parts = [some_ids(number, 30_000, number) for number in range(3)]
    data = tmp_path / "data"
    async with with_runs(data, create=True) as (_, files):
        for number, part in enumerate(parts):
            files.write(f"part{number}", encode([part], {"archives": [number]}))
        runs = [Run(files.open(name), name) for name in files.names()]
        files.write("all", encode(merge(runs, np.ones(3, np.uint8)), {"archives": [0, 1, 2]}))
        sieve = make("blocked", 90_000, 0.01)
        sieve.add(np.concatenate(parts))
        files.write("all.filter", sieve.encode())
        for name in ("part0", "part1", "part2"):
            files.remove(name)
        assert runs[1].find(parts[1]).tolist() == [1] * len(parts[1])
    async with with_runs(data) as (_, files):
        assert files.names() == ["all", "all.filter"]
        run, loaded = Run(files.open("all")), decode(files.open("all.filter"))
        assert loaded is not None
        for number, part in enumerate(parts):
            assert loaded.might_hold(part).all()
            assert (run.find(part) == number).all()
        assert (run.find(some_ids(9, 30_000, 0)) == -1).all()
        assert run.meta == {"archives": [0, 1, 2]}


@pytest.mark.parametrize("at", [100, BLOCK_BYTES + 100, -2 * BLOCK_BYTES + 3, -50])
async def test_a_bit_that_flipped_on_the_disk_is_refused(tmp_path, at) -> None:
    """Covers the header, a block, the fences and the footer."""
    ids, data = some_ids(0, 300, 7), tmp_path / "data"
    async with with_runs(data, create=True) as (_, files):
        files.write("a", encode([ids], {}))
        path = data / "default/0/runs/a"
        flipped = bytearray(path.read_bytes())
        flipped[at] ^= 1
        path.write_bytes(flipped)
        with pytest.raises(RunDamaged, match=r"^a: .* made again from the ledger"):
            Run(files.open("a"), "a").find(ids)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
async def test_a_run_that_finds_no_room_leaves_room_for_the_ledger(small_disk: Path) -> None:
    data, piece = str(small_disk / "data"), os.urandom(1 << 20)
    async with (
        open_log(data, create=True) as ledgers,
        ledgers.open("default") as opened,
        LocalRunFolders(Path(data)).open("default", opened) as files,
    ):
        await opened.ledger.append(*produce(0))
        files.write("a", [piece])
        free = opened.storage.free_bytes()[0]
        for _ in range(2):
            with pytest.raises(LedgerFull, match="make room, it is tried again"):
                files.write("a", (piece for _ in range(64)))
        assert opened.storage.free_bytes()[0] >= free - (1 << 16), "an abandoned run takes no room"
        assert files.names() == ["a"]
        assert bytes(files.open("a")) == piece
        await opened.ledger.append(*produce(1))
        files.write("a", [piece, piece])
        assert bytes(files.open("a")) == 2 * piece
        assert len((await see(opened.ledger)).entries) == 2
