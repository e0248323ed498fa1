"""Retirement in the index: done or taken ids go after their time, open ones stay, a refusal undoes it."""

import pytest

from oncegate.core.claims import IdState
from oncegate.index.claims.store import Widths
from tests.support.index.driver import LEASE_MS, NARROW, fingerprints
from tests.support.index.verbs import VerbDriver

all_widths = pytest.mark.parametrize("widths", [Widths(), NARROW], ids=["wide", "narrow"])
both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])

DONE, PRODUCED, TAKEN, HELD, OVER, LATER = range(6)
RETIRED_MS = 9_000


def full(widths: Widths, compiled: bool) -> VerbDriver:
    """Returns an index with an id in each known state, all of them before RETIRED_MS except LATER."""
    driver = VerbDriver(widths, compiled)
    driver.complete(driver.claim("a", 1, [DONE]).claim)
    driver.does("produce", "b", 1, [PRODUCED])
    driver.does("take", "owner", 0, [TAKEN])
    driver.claim("c", 1, [OVER])
    driver.now_ms += LEASE_MS
    driver.claim("d", 1, [HELD], lease_ms=100 * LEASE_MS)
    driver.complete(driver.claim("e", 1, [LATER]).claim)
    return driver


def states(driver: VerbDriver) -> list[IdState]:
    ids = range(LATER + 1)
    return [driver.index.explain(fp.tobytes(), driver.now_ms).state for fp in fingerprints(ids)]


KNOWN = [IdState.DONE, IdState.DONE, IdState.TAKEN, IdState.CLAIMED_LIVE, IdState.CLAIMED_OVER, IdState.DONE]
LEFT = [IdState.ABSENT, IdState.ABSENT, IdState.ABSENT, IdState.CLAIMED_LIVE, IdState.CLAIMED_OVER, IdState.DONE]


@all_widths
@both_kernels
def test_done_or_taken_ids_retire_and_open_or_later_ones_stay(widths: Widths, compiled: bool) -> None:
    driver = full(widths, compiled)
    assert (states(driver), driver.index.ids) == (KNOWN, 6)
    driver.retire(RETIRED_MS)
    assert (states(driver), driver.index.ids, driver.index.open_claims) == (LEFT, 3, 2)
    driver.index.sweep(driver.now_ms)
    assert (states(driver), driver.index.ids) == (LEFT, 3)


@all_widths
@both_kernels
@pytest.mark.parametrize("sweeping", [False, True])
def test_a_refused_retirement_leaves_everything_known(widths: Widths, compiled: bool, sweeping: bool) -> None:
    driver = full(widths, compiled)
    before = driver.index.contents()
    undo = driver.retire(RETIRED_MS, settled=False)
    if sweeping:
        driver.index.sweep(driver.now_ms)
    driver.undo(undo)
    assert (driver.index.contents(), driver.index.ids, states(driver)) == (before, 6, KNOWN)
    driver.retire(RETIRED_MS)
    assert (states(driver), driver.index.ids) == (LEFT, 3)


@both_kernels
def test_a_grant_of_a_retired_id_and_the_retirement_are_taken_back_together(compiled: bool) -> None:
    driver = full(Widths(), compiled)
    before = driver.index.contents()
    retired = driver.retire(RETIRED_MS, settled=False)
    granted = driver.does("produce", "z", 1, [TAKEN, DONE], settled=False)
    assert granted.words == ["GRANTED", "GRANTED"]
    assert granted.undo is not None
    driver.undo(granted.undo)
    driver.undo(retired)
    assert (driver.index.contents(), driver.index.ids) == (before, 6)


@both_kernels
def test_an_id_granted_again_has_its_time_from_then(compiled: bool) -> None:
    driver = full(Widths(), compiled)
    driver.retire(RETIRED_MS)
    driver.now_ms += 10 * LEASE_MS
    assert driver.does("take", "another", 0, [TAKEN]).words == ["GRANTED"]
    driver.retire(RETIRED_MS)
    assert states(driver)[TAKEN] is IdState.TAKEN


def test_the_oldest_time_is_that_of_what_is_done_or_taken() -> None:
    driver = full(Widths(), True)
    driver.retire(RETIRED_MS)
    assert driver.index.oldest_wall_ms == 8_000 + LEASE_MS
    driver.retire(RETIRED_MS + 1)
    assert driver.index.oldest_wall_ms is None


def test_an_id_taken_over_does_not_go_with_its_former_claim() -> None:
    driver = VerbDriver(Widths(), True)
    claim = driver.claim("c", 1, [DONE, HELD]).claim
    driver.now_ms += LEASE_MS
    assert driver.claim("d", 1, [HELD]).words == ["GRANTED+TAKEOVER"]
    driver.complete(claim)
    driver.retire(100_000)
    assert (states(driver)[DONE], states(driver)[HELD]) == (IdState.ABSENT, IdState.CLAIMED_LIVE)
    assert (driver.index.ids, driver.index.open_claims) == (1, 1)
