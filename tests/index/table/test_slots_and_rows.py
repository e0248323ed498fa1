"""Dead slots, moved tables, reused rows: none of them may show in an answer."""

import os
import random

import numpy as np
import pytest

from oncegate.core.claims import ClaimState
from oncegate.core.errors import Overloaded
from oncegate.index.claims.store import Widths
from tests.support.index.driver import LEASE_MS, NARROW, Driver, name

SEED = int(os.environ.get("ONCEGATE_SEED", "20240611"))


class ChainDriver(Driver):
    """Gives every id the same place in the same segment, so that all are in one chain."""

    fingerprints = staticmethod(lambda numbers: np.array([(number << 8, 3) for number in numbers], np.uint64))


def used_slots(driver: Driver) -> int:
    return driver.index.store.table.used


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_dead_slot_is_taken_over_by_its_own_id_alone(compiled: bool) -> None:
    driver = ChainDriver(NARROW, compiled)
    dead, held = driver.claim("a", 1, [1]).claim, driver.claim("b", 1, [2]).claim
    driver.release(dead)
    driver.now_ms += LEASE_MS
    assert driver.claim("c", 1, [2]).words == ["GRANTED+TAKEOVER"]
    assert used_slots(driver) == 2, "the taken-over id has one slot, its own"
    assert driver.claim("d", 1, [3]).words == ["GRANTED"]
    assert used_slots(driver) == 3, "a new id has a new slot"
    assert driver.claim("e", 1, [1]).words == ["GRANTED"]
    assert used_slots(driver) == 3, "the released id has its old one"
    assert held is not None
    assert driver.index.view(held, driver.now_ms).named == 0


def test_of_a_thousand_live_ids_none_is_granted_again_after_others_were_released() -> None:
    driver = Driver(Widths(capacity=8))
    for number in range(2_000):
        driver.claim("a", number, [number])
    for number in range(0, 2_000, 2):
        driver.release(name(f"a{number}/{number}"))
    driver.claim("b", 1, range(2_000, 2_500))
    live = range(1, 2_000, 2)
    assert set(driver.claim("c", 1, live).words) == {"BUSY"}


def test_released_ids_do_not_fill_the_table() -> None:
    driver = Driver(Widths(capacity=1_024, segments=8))
    for cycle in range(100):
        ids = range(500 * cycle, 500 * (cycle + 1))
        driver.release(driver.claim("a", cycle, ids).claim)
        driver.now_ms += 3 * LEASE_MS
    assert driver.index.store.table.capacity <= 2_048
    assert driver.index.store.rows.made <= 256


def test_a_row_is_reused_only_when_no_slot_names_it() -> None:
    driver = Driver(Widths(tag_bits=16, row_bits=8, capacity=1 << 14, segments=4))
    for number in range(1_000):
        driver.release(driver.claim("a", number, [number]).claim)
        driver.now_ms += 2 * LEASE_MS
    for number in range(200):
        driver.complete(driver.claim("b", number, [5_000 + number]).claim)
    assert set(driver.claim("c", 1, range(1_000)).words) == {"GRANTED"}


def answers(driver: Driver, calls: list[tuple[str, int, list[int]]], numbers: range) -> list[object]:
    """Returns all answers of an index: repeated calls, a new call of each token, a stranger's, each claim."""
    index, now_ms, found = driver.index, driver.now_ms, []
    for token, call, ids in [*calls, *((token, 99, list(numbers)) for token in "abc"), ("x", 1, list(numbers))]:
        decision = driver.decide(token, call, ids, asks=numbers)
        found.append((decision.verdicts.tolist(), decision.numbers.tolist(), decision.claim, decision.again))
    claims = {entry.claim for _, entry in driver.entries}
    found.append([index.view(claim, now_ms) for claim in sorted(claims)])
    found.append((index.contents(), index.ids, index.open_claims, index.takeovers))
    return found


@pytest.mark.parametrize("widths", [Widths(capacity=16, segments=4), NARROW], ids=["wide", "narrow"])
def test_no_answer_changes_by_a_sweep_or_by_more_room(widths: Widths) -> None:
    print(f"ONCEGATE_SEED={SEED}")
    rng = random.Random(SEED)
    for _ in range(8):
        driver, calls = Driver(widths), []
        for step in range(30):
            token, ids = rng.choice("abc"), rng.sample(range(30), 4)
            answer = driver.claim(token, step, ids)
            calls.append((token, step, ids))
            if answer.undo is not None and rng.random() < 0.7:
                rng.choice((driver.complete, driver.release))(answer.claim)
            driver.now_ms += rng.choice((0, 300, LEASE_MS, 2 * LEASE_MS))
            before = answers(driver, calls, range(30))
            if rng.random() < 0.5:
                driver.index.sweep(driver.now_ms)
            else:
                driver.index.make_room(rng.choice((10, 100, 300)), driver.now_ms)
            assert answers(driver, calls, range(30)) == before


def full_of_open_claims() -> Driver:
    """Returns an index in which all 255 rows of an 8-bit width except one have an open claim."""
    driver = Driver(NARROW)
    for number in range(254):
        driver.claim("a", number, [number])
    return driver


def test_when_every_row_is_needed_a_claim_is_refused_and_nothing_changes() -> None:
    driver = full_of_open_claims()
    before = driver.index.contents()
    with pytest.raises(Overloaded):
        driver.claim("b", 1, [1_000])
    assert driver.index.contents() == before
    driver.release(driver.entries[0][1].claim)
    assert driver.claim("b", 1, [1_000]).words == ["GRANTED"]


def test_done_ids_keep_their_rows_permanently() -> None:
    driver = full_of_open_claims()
    for _, entry in list(driver.entries):
        driver.complete(entry.claim)
    driver.now_ms += 100 * LEASE_MS
    with pytest.raises(Overloaded):
        driver.claim("b", 1, [1_000])
    assert set(driver.claim("b", 1, range(254)).words) == {"DUPLICATE"}


def test_when_rows_run_out_settled_claims_are_forgotten_and_open_ones_are_not() -> None:
    driver = full_of_open_claims()
    claims = [entry.claim for _, entry in driver.entries]
    driver.release(claims[7])
    driver.claim("b", 1, [1_000])
    assert driver.index.view(claims[7], driver.now_ms).state is ClaimState.UNKNOWN
    assert driver.index.view(claims[0], driver.now_ms).state is ClaimState.OPEN


def test_claims_are_forgotten_before_their_time_only_as_far_as_rows_are_needed() -> None:
    driver = full_of_open_claims()
    claims = [entry.claim for _, entry in driver.entries]
    for claim in reversed(claims[:100]):
        driver.release(claim)
    driver.claim("b", 1, [1_000])
    forgotten = [driver.index.view(claim, driver.now_ms).state is ClaimState.UNKNOWN for claim in claims[:100]]
    assert forgotten == sorted(forgotten), "claims settled earlier are at the end"
    assert 1 < sum(forgotten) < 20


def claim_until_overloaded(driver: Driver) -> None:
    for number in range(2_000, 2_300):
        try:
            driver.claim("b", number, [number])
        except Overloaded:
            return
    pytest.fail("rows never ran out")


def test_an_open_claim_whose_ids_were_all_taken_over_gives_its_row_up_last() -> None:
    driver = full_of_open_claims()
    claims = [entry.claim for _, entry in driver.entries]
    driver.release(claims[200])
    driver.now_ms += LEASE_MS
    driver.claim("b", 1, [0])
    for claim in claims[201:231]:
        driver.release(claim)
    number = 1_000
    while driver.index.view(claims[230], driver.now_ms).state is not ClaimState.UNKNOWN:
        assert driver.index.view(claims[0], driver.now_ms).state is ClaimState.OPEN
        number += 1
        driver.claim("b", number, [number])
    claim_until_overloaded(driver)
    assert driver.index.view(claims[0], driver.now_ms).state is ClaimState.UNKNOWN


def test_the_rows_of_a_change_that_may_be_taken_back_are_never_reused() -> None:
    driver = full_of_open_claims()
    claims = [entry.claim for _, entry in driver.entries]
    pending = [driver.release(claim, settled=False) for claim in claims[:20]]
    driver.now_ms += 10 * LEASE_MS
    driver.index.sweep(driver.now_ms)
    with pytest.raises(Overloaded):
        driver.claim("b", 1, [1_000])
    for undo in reversed(pending):
        driver.undo(undo)
    assert driver.index.ids == 254
    assert all(driver.index.view(claim, driver.now_ms).state is ClaimState.OPEN for claim in claims[:20])
