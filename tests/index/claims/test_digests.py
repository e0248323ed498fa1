"""Payloads in the index: an id is completed with the payload of its grant; a different one is always reported."""

import json
import os
import random
import zlib

import numpy as np
import pytest

from oncegate.core.errors import Overloaded
from oncegate.index.claims import snapshot as claims_snapshot
from oncegate.index.claims.snapshot import restore, snapshot, snapshot_steps
from oncegate.index.claims.store import Widths
from oncegate.index.table import arrays as memory
from oncegate.index.table import table
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Answer
from tests.support.index.row_sharing import EAGER, go_round, many
from tests.support.index.snapshots import Lasting, go_on
from tests.support.index.verbs import VerbDriver
from tests.support.index.walks import Walk, answers

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))
A, B, NONE = 0xAAAA, 0xBBBB, 0
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
all_widths = pytest.mark.parametrize("widths", [Widths(capacity=8, segments=2), NARROW], ids=["wide", "narrow"])


def of(*digests: int) -> np.ndarray:
    return np.array(digests, np.uint32)


def verdicts_for_a_stranger(
    driver: VerbDriver, ids: list[int], *digests: int, verb: str = "claim", token: str = "x"
) -> list[str]:
    """Returns the verdicts for a stranger, without writing anything."""
    decision = driver.asks(verb, token, 77, ids, digests=of(*digests))
    return Answer(decision, None, None).words


def done(driver: VerbDriver, ids: list[int], *digests: int) -> None:
    driver.complete(driver.claim("w", driver.position, ids, digests=of(*digests)).claim)


@both_kernels
@pytest.mark.parametrize("verb", ["claim", "produce"])
def test_another_payload_is_a_conflict_the_same_and_none_are_duplicates(verb: str, compiled: bool) -> None:
    driver = VerbDriver(compiled=compiled)
    driver.does("produce", "w", 1, [1, 2, 3], digests=of(A, B, NONE))
    assert verdicts_for_a_stranger(driver, [1, 2, 3], A, A, A, verb=verb) == ["DUPLICATE", "CONFLICT", "DUPLICATE"]
    assert verdicts_for_a_stranger(driver, [1, 2, 3], NONE, B, B, verb=verb) == ["DUPLICATE"] * 3
    assert verdicts_for_a_stranger(driver, [1, 2, 3], verb=verb) == ["DUPLICATE"] * 3


@both_kernels
def test_the_same_id_twice_in_one_request_with_other_payloads_is_a_conflict_there(compiled: bool) -> None:
    driver = VerbDriver(compiled=compiled)
    asked = driver.claim("w", 1, [1, 1, 1, 2, 2], digests=of(A, B, A, NONE, B))
    assert asked.words == ["GRANTED", "CONFLICT", "SAME", "GRANTED", "SAME"]
    driver.complete(asked.claim)
    assert verdicts_for_a_stranger(driver, [1], A) == ["DUPLICATE"]
    assert verdicts_for_a_stranger(driver, [1], B) == ["CONFLICT"]


def test_nothing_is_decided_about_a_payload_while_its_id_is_only_claimed() -> None:
    driver = VerbDriver()
    claim = driver.claim("w", 1, [1], digests=of(A)).claim
    assert verdicts_for_a_stranger(driver, [1], B) == ["BUSY"]
    assert verdicts_for_a_stranger(driver, [1], B, token="w") == ["SAME+OF_CALL"]
    driver.now_ms += LEASE_MS
    assert verdicts_for_a_stranger(driver, [1], B) == ["GRANTED+TAKEOVER"]
    driver.release(claim)
    assert verdicts_for_a_stranger(driver, [1], B) == ["GRANTED"]


@both_kernels
def test_who_takes_an_id_over_decides_its_payload(compiled: bool) -> None:
    driver = VerbDriver(compiled=compiled)
    late = driver.claim("w", 1, [1, 2], digests=of(A, A)).claim
    driver.now_ms += LEASE_MS
    taker = driver.claim("v", 1, [1], digests=of(B)).claim
    driver.complete(late)
    assert verdicts_for_a_stranger(driver, [1, 2], B, B) == ["BUSY", "CONFLICT"]
    driver.complete(taker)
    assert verdicts_for_a_stranger(driver, [1, 2], A, A) == ["CONFLICT", "DUPLICATE"]


def test_what_takes_an_id_over_without_a_payload_leaves_none() -> None:
    driver = VerbDriver()
    driver.claim("w", 1, [1, 2], digests=of(A, A))
    driver.now_ms += LEASE_MS
    driver.complete(driver.claim("v", 1, [1]).claim)
    driver.does("take", "o", 0, [2])
    assert verdicts_for_a_stranger(driver, [1, 2], B, B) == ["DUPLICATE"] * 2


@both_kernels
def test_an_entry_that_is_taken_back_leaves_the_payload_that_was_there(compiled: bool) -> None:
    driver = VerbDriver(compiled=compiled)
    first = driver.claim("w", 1, [1, 2], digests=of(A, A)).claim
    driver.now_ms += LEASE_MS
    before = driver.index.contents()
    for digests in (of(B, B), np.empty(0, np.uint32)):
        undo = driver.claim("v", 9, [1, 2], settled=False, digests=digests).undo
        driver.index.make_room(500, driver.now_ms)
        assert undo is not None
        driver.undo(undo)
        assert driver.index.contents() == before
    driver.complete(first)
    assert verdicts_for_a_stranger(driver, [1, 2], A, B) == ["DUPLICATE", "CONFLICT"]


def test_the_first_payload_of_all_is_taken_back_to_none() -> None:
    driver = VerbDriver()
    held = driver.claim("w", 1, [1]).claim
    driver.now_ms += LEASE_MS
    undo = driver.claim("v", 1, [1], settled=False, digests=of(B)).undo
    assert undo is not None
    driver.undo(undo)
    driver.complete(held)
    assert verdicts_for_a_stranger(driver, [1], A) == ["DUPLICATE"], "it came without one"


@both_kernels
def test_a_payload_stays_with_its_id_wherever_its_segment_moves(compiled: bool) -> None:
    driver = VerbDriver(Widths(capacity=8, segments=2), compiled)
    count = 400 if compiled else 60
    for first in range(0, count, 20):
        ids = list(range(first, first + 20))
        done(driver, ids, *(A if i % 2 else B for i in ids))
    assert driver.index.store.table.moves > 2
    for first in range(0, count, 20):
        ids = list(range(first, first + 20))
        assert verdicts_for_a_stranger(driver, ids, *[A] * 20) == ["DUPLICATE" if i % 2 else "CONFLICT" for i in ids]


def test_a_new_id_in_the_place_of_one_that_went_has_its_own_payload_only() -> None:
    driver = VerbDriver(Widths(capacity=2, segments=1))
    for i in range(40):
        driver.release(driver.claim("w", i, [i], digests=of(A)).claim)
        driver.index.sweep(driver.now_ms)
    for i in range(100, 120):
        driver.complete(driver.claim("v", i, [i]).claim)
    assert verdicts_for_a_stranger(driver, list(range(100, 120)), *[B] * 20) == ["DUPLICATE"] * 20


def test_retired_ids_are_granted_again_with_any_payload() -> None:
    driver = VerbDriver()
    done(driver, [1], A)
    driver.retire(1_000_000)
    assert verdicts_for_a_stranger(driver, [1], B) == ["GRANTED"]
    done(driver, [1], B)
    assert verdicts_for_a_stranger(driver, [1], A) == ["CONFLICT"]


def test_explain_shows_that_a_payload_would_be_recognized() -> None:
    driver = VerbDriver()
    driver.does("produce", "w", 1, [1, 2], digests=of(A, NONE))
    prints = driver.fingerprints([1, 2, 3])
    assert [driver.index.explain(row.tobytes(), 0).digest_kept for row in prints] == [True, False, False]


def test_rows_of_ids_with_payloads_are_marked_for_they_cannot_leave_memory() -> None:
    driver = VerbDriver()
    driver.does("produce", "w", 1, [1])
    driver.does("produce", "w", 2, [2], digests=of(A))
    assert driver.index.store.rows.column("beside").tolist() == [0, 1]


def test_without_payloads_nothing_is_kept_of_them() -> None:
    driver = VerbDriver()
    done(driver, [1, 2])
    before = driver.index.size_bytes
    assert len(driver.index.store.table.slots.digests) == 0
    assert not [name for name in dict(snapshot(driver.index.store)) if name.startswith("digests")]
    done(driver, [3], A)
    assert driver.index.size_bytes - before >= 4 * driver.index.store.table.capacity


def test_where_there_is_no_address_space_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = VerbDriver()
    done(driver, [1])
    short = memory.reserve({"digests": (np.uint32, 1)}, 16)
    monkeypatch.setattr(table, "reserve", lambda layout, length: short)
    with pytest.raises(Overloaded, match="nothing was written"):
        driver.claim("w", 9, [2], digests=of(A))
    assert verdicts_for_a_stranger(driver, [2]) == ["GRANTED"]


@all_widths
@both_kernels
def test_a_restored_snapshot_knows_the_same_payloads(widths: Widths, compiled: bool) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + (15 if compiled else 3)):
        walk = Walk(widths, random.Random(seed), compiled, payloads=True)
        for _ in range(60):
            walk.step()
        copy = ClaimIndex(widths, compiled)
        restore(copy.store, dict(snapshot(walk.index.store)))
        for index in (copy, walk.index):
            index.reset_leases(walk.now_ms)
        asked = (walk.calls, walk.claims, walk.now_ms)
        assert answers(copy, *asked) == answers(walk.index, *asked), f"seed {seed}"
        marked = [index.store.rows.column("beside").sum() > 0 for index in (copy, walk.index)]
        held = any(digest for *_, digest in walk.index.contents().values())
        assert marked[0] == held
        assert marked[1] or not held


@both_kernels
def test_a_save_while_payloads_change_knows_those_that_were_there_when_it_began(
    monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    monkeypatch.setattr(claims_snapshot, "_ROWS_PER_PIECE", 5)
    monkeypatch.setattr(claims_snapshot, "_SLOTS_PER_PIECE", 4)
    print(f"ONCEGATE_SEED={SEED}")
    widths, overwritten = Widths(capacity=8, segments=8, pool_from=4), 0
    for seed in range(SEED, SEED + (20 if compiled else 5)):
        rng = random.Random(seed)
        walk = Lasting(widths, rng, compiled, payloads=True)
        for _ in range(40):
            walk.step()
        before = walk.index.contents()
        pieces = go_on(snapshot_steps(walk.index.store), walk, rng)
        if pieces is not None:
            copy = ClaimIndex(widths, compiled)
            restore(copy.store, pieces)
            assert copy.contents() == before, f"seed {seed}"
            overwritten += walk.index.contents() != before
    assert overwritten > 3, "or nothing is shown"


def test_the_first_payload_may_come_while_the_index_is_saved() -> None:
    driver = VerbDriver()
    done(driver, [1, 2])
    before, steps = driver.index.contents(), snapshot_steps(driver.index.store)
    pieces = dict(next(steps))
    driver.now_ms += LEASE_MS
    driver.claim("v", 1, [3, 4], digests=of(A, B))
    for ready in steps:
        pieces |= dict(ready)
    copy = ClaimIndex()
    restore(copy.store, pieces)
    assert copy.contents() == before


def test_small_claims_with_payloads_keep_their_rows() -> None:
    """A shared row could not record that it must not leave memory."""
    driver = VerbDriver(EAGER)
    for i in range(30):
        driver.complete(driver.claim("w", i, [i], digests=of(A) if i % 2 else np.empty(0, np.uint32)).claim)
    many(driver, 0)
    go_round(driver)
    rows = [driver.index.store.table.row_of(one) for one in driver.fingerprints(range(30))]
    assert len(set(rows[::2])) < 5, "those without share one"
    assert len(set(rows[1::2])) == 15
    assert verdicts_for_a_stranger(driver, [1, 2], B, B) == ["CONFLICT", "DUPLICATE"]


@all_widths
def test_replay_knows_the_same_payloads(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 15):
        walk = Walk(widths, random.Random(seed), payloads=True)
        for _ in range(60):
            walk.step()
        walk.all_durable()
        replayed = ClaimIndex(widths)
        for position, entry in walk.entries:
            replayed.settle(replayed.apply(position, entry, walk.now_ms))
        assert replayed.contents() == walk.index.contents(), f"seed {seed}"


@all_widths
def test_whatever_is_taken_back_leaves_all_payloads_as_they_were(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 15):
        walk = Walk(widths, random.Random(seed), payloads=True)
        for _ in range(40):
            walk.step()
        walk.all_durable()
        before = walk.index.contents()
        for _ in range(6):
            undo = walk._grants()
            if walk.rng.random() < 0.3:
                walk.index.sweep(walk.now_ms)
            if undo is not None:
                walk.undo(undo)
            assert walk.index.contents() == before, f"seed {seed}"


@pytest.mark.parametrize("wrong", [b"", b"\0" * 4, b"\0" * 7])
def test_pieces_of_digests_that_do_not_belong_to_their_slots_are_refused(wrong: bytes) -> None:
    driver = VerbDriver()
    done(driver, [1, 2, 3], A, B, A)
    pieces = dict(snapshot(driver.index.store))
    pieces["digests/0"] = wrong
    if not wrong:
        pieces["digests/1"] = pieces.pop("digests/0")
    del pieces["sums"]
    pieces["sums"] = json.dumps({name: zlib.crc32(data) for name, data in pieces.items()}).encode()
    with pytest.raises(ValueError, match="inconsistent"):
        restore(ClaimIndex().store, pieces)
