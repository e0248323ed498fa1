"""A save during changes of the index has the state at its start, and blocks nothing for long."""

import os
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from oncegate.index.claims import snapshot as claims_snapshot
from oncegate.index.claims.snapshot import SnapshotStopped, snapshot, snapshot_steps
from oncegate.index.claims.store import Widths
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver
from tests.support.index.snapshots import Lasting, go_on, loaded
from tests.support.index.verbs import VerbDriver
from tests.support.index.walks import Walk, answers

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
WIDE = Widths(capacity=8, segments=8, pool_from=4)
all_widths = pytest.mark.parametrize(
    "widths", [WIDE, replace(NARROW, row_bits=16, segments=8, pool_from=4)], ids=["wide", "narrow"]
)
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])


def contents(pieces: dict[str, bytes], widths: Widths, now_ms: int, walk: Walk) -> list[object]:
    """Returns the answers of an index loaded from these pieces."""
    index = loaded(pieces, widths, now_ms)
    return [*answers(index, walk.calls, walk.claims, now_ms), index.wall_ms]


@all_widths
@both_kernels
def test_a_snapshot_has_the_state_at_its_begin(monkeypatch: pytest.MonkeyPatch, widths: Widths, compiled: bool) -> None:
    """Random changes between the steps; those pending at the first count as applied."""
    monkeypatch.setattr(claims_snapshot, "_ROWS_PER_PIECE", 5)
    monkeypatch.setattr(claims_snapshot, "_SLOTS_PER_PIECE", 4)
    print(f"ONCEGATE_SEED={SEED}")
    whole = overwritten = 0
    for seed in range(SEED, SEED + (40 if compiled else 14)):
        rng = random.Random(seed)
        walk = (Walk if seed % 3 == 0 else Lasting)(widths, rng, compiled)
        for _ in range(40):
            walk.step()
        now_ms = walk.now_ms
        at_once = contents(dict(snapshot(walk.index.store)), widths, now_ms, walk)
        calls, claims = list(walk.calls), list(walk.claims)
        pieces = go_on(snapshot_steps(walk.index.store), walk, rng)
        assert walk.index.store.snapshot is None
        if pieces is None:
            continue
        whole += 1
        overwritten += len(pieces["slots/0"]) > 0
        walk.calls, walk.claims = calls, claims
        assert contents(pieces, widths, now_ms, walk) == at_once, f"seed {seed}"
    assert whole > 5
    assert overwritten > 2


def full(widths: Widths = WIDE) -> VerbDriver:
    """Returns an index with open and completed claims, of ids in all segments."""
    driver = VerbDriver(widths)
    driver.complete(driver.claim("a", 1, range(50)).claim)
    driver.claim("b", 1, range(50, 100))
    driver.does("take", "c", 0, range(100, 120))
    return driver


def test_a_slot_that_is_taken_over_before_its_turn_is_saved_as_it_was() -> None:
    driver = full()
    expected = loaded(dict(snapshot(driver.index.store)), WIDE).contents()
    steps = snapshot_steps(driver.index.store)
    pieces = dict(next(steps))
    driver.now_ms += 2 * LEASE_MS
    assert driver.claim("d", 1, range(40, 100)).words == ["DUPLICATE"] * 10 + ["GRANTED+TAKEOVER"] * 50
    driver.now_ms += 2 * LEASE_MS
    driver.claim("e", 1, range(60, 130))
    for ready in steps:
        pieces |= ready
    assert loaded(pieces, WIDE).contents() == expected


def test_ids_claimed_retired_or_released_meanwhile_are_not_in_it() -> None:
    driver = full()
    before = loaded(dict(snapshot(driver.index.store)), WIDE)
    steps = snapshot_steps(driver.index.store)
    pieces = dict(next(steps))
    claim = driver.claim("new", 1, range(1_000, 1_500)).claim
    driver.complete(claim)
    driver.retire(10**9)
    driver.index.sweep(driver.now_ms)
    driver.claim("newer", 1, range(120))
    for ready in steps:
        pieces |= ready
    after = loaded(pieces, WIDE)
    assert after.contents() == before.contents()
    assert (after.ids, after.open_claims, after.wall_ms) == (before.ids, before.open_claims, before.wall_ms)


def test_rows_that_become_free_meanwhile_are_reused_only_afterwards() -> None:
    driver = Driver(WIDE)
    driver.release(driver.claim("a", 1, [1]).claim)
    driver.now_ms += 3 * LEASE_MS
    steps = snapshot_steps(driver.index.store)
    driver.index.store.registry.forget_old(driver.now_ms)
    made = driver.index.store.rows.made
    driver.claim("b", 1, [2])
    assert driver.index.store.rows.made == made + 1
    list(steps)
    driver.index.sweep(driver.now_ms)
    driver.claim("c", 1, [3])
    assert driver.index.store.rows.made == made + 1


def test_a_save_is_stopped_where_a_change_is_taken_back() -> None:
    driver = full()
    steps = snapshot_steps(driver.index.store)
    next(steps)
    answer = driver.claim("d", 1, [500], settled=False)
    assert answer.undo is not None
    driver.undo(answer.undo)
    with pytest.raises(SnapshotStopped):
        list(steps)
    assert dict(snapshot(driver.index.store))


def test_a_save_is_stopped_where_rows_run_out() -> None:
    """Requests come first: none is refused because of it."""
    driver = Driver(replace(WIDE, row_bits=4))
    for call in range(6):
        driver.release(driver.claim("a", call, [call]).claim)
    driver.now_ms += 3 * LEASE_MS
    steps = snapshot_steps(driver.index.store)
    for call in range(20):
        driver.release(driver.claim("b", call, [100 + call]).claim)
        driver.now_ms += 3 * LEASE_MS
    with pytest.raises(SnapshotStopped):
        list(steps)


def test_a_save_that_is_closed_leaves_the_index_as_it_was() -> None:
    driver = full()
    for closed in (snapshot_steps(driver.index.store), partial(snapshot_steps, driver.index.store)):
        steps = closed() if callable(closed) else closed
        steps.close()
        assert driver.index.store.snapshot is None
    driver.index.sweep(driver.now_ms)


def test_only_one_is_under_way() -> None:
    index = ClaimIndex(WIDE)
    steps = snapshot_steps(index.store)
    with pytest.raises(AssertionError):
        snapshot_steps(index.store)
    list(steps)


def test_no_step_goes_over_more_than_one_segment() -> None:
    """The longest wait of a request: rows are copied in the first step, then one segment per step."""
    driver = full()
    steps = list(snapshot_steps(driver.index.store))
    assert len(steps) >= 8 + 3
    assert sum(any(name.startswith("slots/") for name, _ in ready) for ready in steps) == 1


@both_kernels
def test_the_payloads_of_what_is_overwritten_meanwhile_are_saved_as_they_were(compiled: bool) -> None:
    driver, ids = Driver(WIDE, compiled), list(range(40))
    driver.claim("first", 1, ids, digests=np.arange(1, 41, dtype=np.uint32))
    driver.now_ms += 2 * LEASE_MS
    before, steps, pieces = driver.index.contents(), snapshot_steps(driver.index.store), dict[str, bytes]()
    for number, ready in enumerate(steps):
        pieces |= ready
        if number == 4:
            driver.claim("second", 1, ids, digests=np.arange(101, 141, dtype=np.uint32))
    assert driver.index.contents() != before
    assert loaded(pieces, WIDE).contents() == before
