"""The index is determined by the entries: a replay gives the live one (P3)."""

import os
import random

import pytest

from oncegate.core.claims import ClaimState
from oncegate.core.entries.codec import decode, encode
from oncegate.core.entries.kinds import Claimed, Completed, Entry, Probe, Released
from oncegate.index.claims.replay import replay
from oncegate.index.claims.store import Widths
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver, name

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


def lived(widths: Widths, rng: random.Random, claims: int) -> Driver:
    """Returns an index after many claims by four attempts, most of them settled, with sweeps and expired leases."""
    driver, held = Driver(widths), []
    for call in range(claims):
        answer = driver.claim(rng.choice("abcd"), call, rng.sample(range(40), 3))
        if answer.undo is not None:
            held.append(answer.claim)
        open_now = [c for c in held if driver.index.view(c, driver.now_ms).state is ClaimState.OPEN]
        if open_now and rng.random() < 0.8:
            settle = driver.complete if rng.random() < 0.05 else driver.release
            settle(rng.choice(open_now))
        driver.now_ms += rng.choice((0, 400, LEASE_MS))
        if rng.random() < 0.1:
            driver.index.sweep(driver.now_ms)
    return driver


def replayed(driver: Driver, widths: Widths, now_ms: int = 0) -> ClaimIndex:
    index = ClaimIndex(widths)
    replay([(position, decode(encode(entry))) for position, entry in driver.entries], index.store, now_ms)
    return index


@pytest.mark.parametrize("widths", [Widths(), NARROW], ids=["wide", "narrow"])
def test_a_rebuilt_index_is_the_index_that_lived(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    for seed in range(SEED, SEED + 3):
        driver = lived(widths, random.Random(seed), claims=200)
        index = replayed(driver, widths)
        assert index.contents() == driver.index.contents(), f"seed {seed}"
        for counter in ("takeovers", "open_claims", "ids"):
            assert getattr(index, counter) == getattr(driver.index, counter), f"seed {seed}"


def test_a_replay_needs_no_more_rows_than_life_did() -> None:
    """Seven rows: far more claims came and went than were ever remembered at once."""
    widths = Widths(tag_bits=16, row_bits=3, capacity=4, segments=2)
    driver = Driver(widths)
    driver.complete(driver.claim("a", 0, [500]).claim)
    for call in range(1, 100):
        first = driver.claim("a", call, [call]).claim
        driver.now_ms += LEASE_MS
        taker = driver.claim("b", call, [call, 200 + call]).claim
        driver.release(first if call % 3 else taker)
        driver.release(taker)
        driver.now_ms += 2 * LEASE_MS
    index = replayed(driver, widths)
    assert index.contents() == driver.index.contents()
    assert index.takeovers == driver.index.takeovers == 99


def test_after_a_rebuild_every_open_claim_has_a_full_lease() -> None:
    driver = Driver()
    claim = driver.claim("a", 1, [1]).claim
    assert claim is not None
    index = replayed(driver, Widths(), now_ms=20_000)
    index.reset_leases(50_000)
    assert index.view(claim, 50_000).lease_left_ms == LEASE_MS


def test_after_a_rebuild_a_settled_claim_is_remembered_for_two_leases_more() -> None:
    driver = Driver()
    claim = driver.claim("a", 1, [1]).claim
    assert claim is not None
    driver.complete(claim)
    index = replayed(driver, Widths(), now_ms=20_000)
    index.reset_leases(50_000)
    assert index.view(claim, 50_000 + 2 * LEASE_MS - 1).state is ClaimState.DONE
    assert index.view(claim, 50_000 + 2 * LEASE_MS).state is ClaimState.UNKNOWN


def test_a_fold_hands_what_is_no_claims_to_the_others_in_order() -> None:
    seen: list[tuple[int, Entry]] = []
    entries: list[tuple[int, Entry]] = [(1, Probe(5)), (2, Completed(name("x"), 1)), (3, Probe(6))]
    position = replay(entries, ClaimIndex().store, 0, lambda *pair: seen.append(pair))
    assert (position, seen) == (3, [(1, Probe(5)), (3, Probe(6))])


def test_a_fold_of_nothing_is_an_empty_index() -> None:
    index = ClaimIndex()
    assert replay([], index.store, 0) == 0
    assert index.contents() == {}


def test_an_entry_is_applied_unchanged_whatever_the_clock() -> None:
    """The expiry of a lease was decided when the entry was written; applying it does not decide again."""
    driver = Driver()
    first = driver.claim("a", 1, [1]).claim
    driver.now_ms += LEASE_MS
    driver.claim("b", 1, [1])
    assert [type(entry) for _, entry in driver.entries] == [Claimed, Claimed]
    index = replayed(driver, Widths())
    assert (index.takeovers, index.open_claims) == (1, 1)
    assert first is not None
    index.settle(index.apply(3, Released(first, 0), 0))
    assert index.contents() == driver.index.contents()
