"""Retirement covers exactly the ids done or taken before a time, found without a scan of every row."""

import os
import random

import numpy as np
import pytest

from oncegate.core.claims import IdState
from oncegate.core.entries.kinds import Claimed, Completed, Retired
from oncegate.core.entries.producers import Acked, Scoped
from oncegate.index.claims.results import Explained
from oncegate.index.claims.store import Widths
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, fingerprints
from tests.support.index.verbs import VerbDriver
from tests.support.index.walks import IDS, Walk, answers

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
FOR_GOOD = (IdState.DONE, IdState.TAKEN)


def explained(index: ClaimIndex, now_ms: int) -> list[Explained]:
    return [index.explain(print_.tobytes(), now_ms) for print_ in fingerprints(IDS)]


@pytest.mark.parametrize("widths", [Widths(capacity=8, segments=2), NARROW], ids=["wide", "narrow"])
def test_of_all_that_is_done_or_taken_what_is_older_retires(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    retired = 0
    for seed in range(SEED, SEED + 12):
        walk = Walk(widths, random.Random(seed))
        for _ in range(60):
            walk.step()
            before = explained(walk.index, walk.now_ms)
            times = [item.wall_ms for item in before if item.state in FOR_GOOD]
            assert walk.index.oldest_wall_ms == min(times, default=None), f"seed {seed}"
            if not times or walk.rng.random() < 0.7:
                continue
            cut = walk.rng.choice(times) + walk.rng.choice((0, 1, 8_192))
            everything = answers(walk.index, walk.calls, walk.claims, walk.now_ms)
            undo = walk.retire(cut, settled=False)
            for old, new in zip(before, explained(walk.index, walk.now_ms), strict=True):
                goes = old.state in FOR_GOOD and old.wall_ms < cut
                assert new.state is (IdState.ABSENT if goes else old.state), f"seed {seed}"
                retired += goes
            walk.undo(undo)
            assert answers(walk.index, walk.calls, walk.claims, walk.now_ms) == everything
            walk.index.settle(walk.retire(cut, settled=False))
    assert retired > 50


def test_a_bucket_of_many_rows_retires_in_one_pass_and_is_swept_as_room_is_needed() -> None:
    driver = VerbDriver(Widths(capacity=16_384, segments=4))
    for call in range(3_000):
        driver.does("take", "a", call, [call])
    table, rows = driver.index.store.table, driver.index.store.rows
    moves = table.moves
    driver.now_ms += 100
    driver.does("take", "b", 1, [5_000])
    driver.retire(6_001)
    assert (driver.index.ids, table.dead, table.moves, rows._spares) == (1, 3_000, moves, 0)
    driver.now_ms += LEASE_MS
    driver.does("take", "b", 2, range(10_000, 19_000))
    assert table.dead < 3_000
    assert rows._spares == 3_000 - table.dead - 1, "each row goes with its slot, and one is used again"
    driver.index.sweep(driver.now_ms)
    assert rows._spares == 3_000 - 1


@pytest.mark.parametrize("meanwhile", ["a retirement", "a look for the oldest"])
def test_acked_and_undone_ids_retire_all_the_same(meanwhile: str) -> None:
    """Undone together: both had changed the list of retiring ids."""
    index, claim = ClaimIndex(), b"c" * 16
    ids = np.arange(1, 9, dtype=np.uint64).reshape(-1, 2)
    claimed = Claimed(claim, b"t" * 16, 1, b"d" * 16, 30_000, 500, ids.tobytes(), b"")
    for position, entry in enumerate([claimed, Scoped(claim, "driver", 7), Completed(claim, 1_000)], 1):
        index.settle(index.apply(position, entry, 0))
    acked = index.apply(4, Acked("driver", 1, 8, b"", 900_000), 0)
    if meanwhile == "a retirement":
        retired = index.apply(5, Retired(800_000, 900_001), 0)
        assert retired is not None
        index.undo(retired)
    else:
        assert index.oldest_wall_ms is None
    assert acked is not None
    index.undo(acked)
    assert (index.ids, index.oldest_wall_ms) == (4, 1_000)
    index.settle(index.apply(4, Retired(800_000, 900_001), 0))
    assert index.ids == 0
