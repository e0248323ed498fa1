"""Results of first writes in rows: kept through reuse, sharing, undo and snapshots, and dropped with their rows."""

import os
import random
import tracemalloc

import numpy as np
import pytest

from oncegate.core.entries.kinds import Produced
from oncegate.index.claims.apply import apply
from oncegate.index.claims.firsts import firsts_of, written_by
from oncegate.index.claims.lookup import explain
from oncegate.index.shard import ShardIndex
from oncegate.index.table.rows import RESULT_BYTES, Results
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import NARROW, fingerprints, name
from tests.support.index.row_sharing import EAGER, LATER_MS, go_round
from tests.support.index.verbs import VerbDriver

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])


def results(index: ClaimIndex, ids: list[int]) -> list[bytes | None]:
    """Returns the results of ids, all of which are duplicates."""
    located = firsts_of(index, fingerprints(ids), np.full(len(ids), 2, np.uint8), 16).located
    return [None if number < 0 else located.results[number] for number in located.result.tolist()]


def done(driver: VerbDriver, ids: list[int], result: bytes = b"") -> None:
    driver.complete(driver.claim("w", driver.position, ids).claim, result=result)


@both_kernels
def test_a_row_that_is_used_again_has_no_result_of_the_one_before(compiled: bool) -> None:
    """All 255 rows are used several times, with results and without."""
    driver, rng, told = VerbDriver(NARROW, compiled), random.Random(SEED), 0
    for round_number in range(400):
        ids, result = [3 * round_number, 3 * round_number + 1], b"%d" % round_number if rng.random() < 0.5 else b""
        done(driver, ids, result)
        assert results(driver.index, ids) == [result or None] * 2, SEED
        told += bool(result)
        driver.now_ms += 10
        driver.retire(8_000 + driver.now_ms - 300)
        driver.index.sweep(driver.now_ms)
    kept = driver.index.store.rows.results
    assert told > len(kept.by_row), "some were let go of with their rows"
    assert kept.size_bytes == sum(RESULT_BYTES + len(result) for result in kept.by_row.values())


def test_small_claims_with_a_result_share_no_row() -> None:
    driver = VerbDriver(EAGER)
    for call in range(40):
        done(driver, [call], b"%d" % call if call % 2 else b"")
    driver.now_ms += LATER_MS
    done(driver, [10**6])
    go_round(driver)
    assert driver.index.store.sharing.rounds >= 1
    assert results(driver.index, list(range(40))) == [b"%d" % call if call % 2 else None for call in range(40)]
    assert driver.index.store.rows.in_use < 40


def test_a_result_that_was_forgotten_lets_its_row_be_shared() -> None:
    driver = VerbDriver(EAGER)
    for call in range(40):
        done(driver, [call], b"x")
    driver.index.rows.results.keep_within(10 * (RESULT_BYTES + 1))
    assert driver.index.rows.results.forgotten == 30
    driver.now_ms += LATER_MS
    done(driver, [10**6])
    go_round(driver)
    assert driver.index.store.rows.in_use < 20
    assert results(driver.index, [0, 29, 30, 39]) == [None, None, b"x", b"x"]


@both_kernels
def test_a_snapshot_gives_each_row_its_own_result(compiled: bool) -> None:
    """Rows are saved under new numbers: those of claims that can be named come first."""
    driver = VerbDriver(compiled=compiled)
    for call in range(30):
        done(driver, [2 * call, 2 * call + 1], b"%d" % call if call % 3 else b"")
        if call == 15:
            driver.now_ms += 10**6
            driver.retire(9_000)
    before = results(driver.index, list(range(60)))
    saved, loaded = ShardIndex(driver.index), ShardIndex()
    for piece in saved.snapshot():
        apply(loaded.claims, 0, piece, 0)
        loaded.replayed(0, piece)
    assert results(loaded.claims, list(range(60))) == before
    assert {None, b"29", b"17"} < set(before)


def test_a_snapshot_of_an_older_build_has_no_location_that_may_be_wrong() -> None:
    """The older build did not keep the position of a request's one taken id among its rows."""
    driver, taken = VerbDriver(), fingerprints([1]).tobytes()
    driver.apply(Produced("t", 0, 7, 1, 9, name("c"), name("t"), 1, name("d"), 5, taken, b""))
    index, loaded = ShardIndex(driver.index), [ShardIndex(), ShardIndex()]
    for piece in index.snapshot():
        loaded[0].replayed(0, piece)
        if piece.what != "results":
            loaded[1].replayed(0, piece)
    offsets = [
        firsts_of(one.claims, fingerprints([1]), np.array([2], np.uint8), 0).located.offset.tolist() for one in loaded
    ]
    assert offsets == [[7], [-1]]
    explained = [explain(one.claims, taken, 0).written_at for one in loaded]
    assert explained == [("t", 0, 7)] * 2
    assert [written_by(one.claims, name("c"))[0].first_offset for one in loaded] == [7, 7]


def test_a_results_counted_size_is_its_real_size() -> None:
    rows, count = VerbDriver().index.store.rows, 20_000
    rows.grow(count)
    numbers = [int(number) for number in np.arange(count)]
    tracemalloc.start()
    try:
        kept = Results(rows)
        before = tracemalloc.get_traced_memory()[0]
        for number in numbers:
            kept.put([number], b"%0100d" % number)
        took = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # The rows' numbers are extra objects of 32 bytes.
    assert 0.6 * kept.size_bytes < took + 32 * count < 1.05 * kept.size_bytes
