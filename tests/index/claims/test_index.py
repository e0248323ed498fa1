"""The claims index, one behaviour per test."""

import numpy as np
import pytest

from oncegate.core.claims import Action, ClaimState, IdState
from oncegate.core.errors import TokenReused
from oncegate.index.claims.store import Widths
from oncegate.index.table.arrays import SAME_INDEX
from tests.support.index.claim_index import ClaimIndex
from tests.support.index.driver import LEASE_MS, NARROW, Driver, fingerprints, name


@pytest.fixture(params=[(Widths(), True), (NARROW, True), (NARROW, False)], ids=["wide", "narrow", "narrow-plain"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(*request.param)


def state_of(driver: Driver, number: int) -> IdState:
    return driver.index.explain(fingerprints([number])[0].tobytes(), driver.now_ms).state


def test_verdicts_are_in_the_order_asked(driver: Driver) -> None:
    driver.complete(driver.claim("a", 1, [1]).claim)
    driver.claim("b", 1, [2])
    answer = driver.claim("c", 1, [2, 3, 1, 3])
    assert answer.verdicts == [("BUSY", LEASE_MS), ("GRANTED", 0), ("DUPLICATE", 0), ("SAME", 1)]
    assert answer.asked.actions.tolist() == [Action.BUSY, Action.GRANT, Action.DUPLICATE, SAME_INDEX]


def test_an_id_twice_in_one_request_shares_the_fate_of_the_first_whatever_it_is(driver: Driver) -> None:
    driver.complete(driver.claim("a", 1, [1]).claim)
    assert driver.claim("b", 1, [1, 2, 1, 2, 2]).verdicts == [
        ("DUPLICATE", 0),
        ("GRANTED", 0),
        ("SAME", 0),
        ("SAME", 1),
        ("SAME", 1),
    ]
    assert driver.index.ids == 2


def test_a_request_of_no_ids_is_answered_with_nothing(driver: Driver) -> None:
    answer = driver.claim("a", 1, [])
    assert answer.verdicts == []
    assert answer.undo is None
    assert answer.asked.rests_on == 0


def test_asking_has_no_effect(driver: Driver) -> None:
    for _ in range(2):
        assert driver.decide("a", 1, [1, 2]).actions.tolist() == [Action.GRANT, Action.GRANT]
    assert (driver.index.ids, driver.index.open_claims) == (0, 0)


def test_ids_may_come_read_only_or_as_a_view(driver: Driver) -> None:
    ids = fingerprints(range(6))
    digest, token = bytes(16), name("a")
    for given in (np.frombuffer(ids.tobytes(), np.uint64).reshape(-1, 2), np.asfortranarray(ids), ids[::2]):
        assert set(driver.index.decide(token, 1, digest, given, 0).actions.tolist()) == {Action.GRANT}
    assert driver.index.decide(token, 1, digest, ids[::2], 0).fresh.tolist() == ids[::2].tolist()


def test_a_token_and_call_with_other_ids_is_refused_as_long_as_it_is_remembered(driver: Driver) -> None:
    claim = driver.claim("a", 1, [1]).claim
    with pytest.raises(TokenReused):
        driver.decide("a", 1, [2])
    driver.release(claim)
    driver.now_ms += 2 * LEASE_MS - 1
    with pytest.raises(TokenReused):
        driver.decide("a", 1, [2])
    driver.now_ms += 1
    assert driver.claim("a", 1, [2]).words == ["GRANTED"]


def test_a_lease_that_ran_out_can_be_taken_over_and_not_a_millisecond_before(driver: Driver) -> None:
    driver.claim("a", 1, [1])
    driver.now_ms += LEASE_MS - 1
    assert driver.claim("b", 1, [1]).verdicts == [("BUSY", 1)]
    driver.now_ms += 1
    assert driver.claim("b", 2, [1]).words == ["GRANTED+TAKEOVER"]
    assert driver.index.takeovers == 1


def test_a_renewed_lease_runs_from_the_renewal_also_after_it_was_over(driver: Driver) -> None:
    claim = driver.claim("a", 1, [1]).claim
    assert claim is not None
    driver.now_ms += 5 * LEASE_MS
    driver.index.renew(claim, driver.now_ms)
    driver.now_ms += LEASE_MS - 1
    assert driver.claim("b", 1, [1]).verdicts == [("BUSY", 1)]


def test_a_repeat_of_a_takeover_is_a_takeover_again(driver: Driver) -> None:
    driver.claim("a", 1, [1])
    driver.now_ms += LEASE_MS
    first = driver.claim("b", 1, [1, 2])
    again = driver.claim("b", 1, [1, 2])
    assert first.words == again.words == ["GRANTED+TAKEOVER", "GRANTED"]
    assert again.asked.again
    assert again.claim == first.claim
    assert driver.index.takeovers == 1


def test_a_holder_learns_how_many_ids_were_taken_over_and_completes_the_rest_alone(driver: Driver) -> None:
    first = driver.claim("a", 1, [1, 2, 3]).claim
    driver.now_ms += LEASE_MS
    driver.claim("b", 1, [2])
    assert first is not None
    view = driver.index.view(first, driver.now_ms)
    assert (view.granted, view.named) == (3, 2)
    driver.complete(first)
    assert [state_of(driver, i) for i in (1, 2, 3)] == [IdState.DONE, IdState.CLAIMED_LIVE, IdState.DONE]


def test_a_release_frees_what_the_claim_still_holds_and_leaves_the_takers_alone(driver: Driver) -> None:
    first = driver.claim("a", 1, [1, 2]).claim
    driver.now_ms += LEASE_MS
    driver.claim("b", 1, [2])
    driver.release(first)
    assert [state_of(driver, i) for i in (1, 2)] == [IdState.ABSENT, IdState.CLAIMED_LIVE]
    assert driver.claim("c", 1, [1, 2]).words == ["GRANTED", "BUSY"]


def test_a_holder_by_takeover_that_releases_leaves_the_id_free(driver: Driver) -> None:
    first = driver.claim("a", 1, [1]).claim
    driver.now_ms += LEASE_MS
    driver.release(driver.claim("b", 1, [1]).claim)
    driver.complete(first)
    assert state_of(driver, 1) is IdState.ABSENT
    assert driver.claim("a", 1, [1]).words == ["BUSY"]
    assert driver.claim("a", 2, [1]).words == ["GRANTED"]


def test_a_verdict_depends_on_the_last_entry_that_made_it_true(driver: Driver) -> None:
    claim = driver.claim("a", 1, [1]).claim
    driver.claim("z", 1, [9])
    assert driver.decide("a", 1, [1]).rests_on == 1
    assert driver.decide("a", 2, [1]).rests_on == 1
    driver.complete(claim)
    assert driver.decide("b", 1, [1]).rests_on == 3
    assert driver.decide("b", 1, [1, 9]).rests_on == 3


def test_busy_rests_on_nothing(driver: Driver) -> None:
    driver.claim("a", 1, [1])
    assert driver.decide("b", 1, [1]).rests_on == 0


def test_an_explained_id_shows_its_holder_and_the_remaining_time(driver: Driver) -> None:
    claim = driver.claim("a", 7, [1], lease_ms=500).claim
    driver.now_ms = 100
    explained = driver.index.explain(fingerprints([1])[0].tobytes(), driver.now_ms)
    assert explained.state is IdState.CLAIMED_LIVE
    assert (explained.claim, explained.token, explained.call) == (claim, name("a"), 7)
    assert (explained.lease_left_ms, explained.position, explained.wall_ms) == (400, 1, 7_000)
    driver.complete(claim)
    explained = driver.index.explain(fingerprints([1])[0].tobytes(), driver.now_ms)
    assert (explained.state, explained.lease_left_ms) == (IdState.DONE, 0)
    assert (explained.position, explained.wall_ms, explained.takeover) == (2, 8_100, False)


def test_an_absent_id_is_explained_without_a_holder(driver: Driver) -> None:
    explained = driver.index.explain(fingerprints([1])[0].tobytes(), 0)
    assert (explained.state, explained.claim, explained.position) == (IdState.ABSENT, None, 0)
    driver.release(driver.claim("a", 1, [1]).claim)
    explained = driver.index.explain(fingerprints([1])[0].tobytes(), 0)
    assert (explained.state, explained.claim, explained.position) == (IdState.ABSENT, None, 2)


def test_an_unknown_claim_is_seen_as_such_and_cannot_be_renewed(driver: Driver) -> None:
    assert driver.index.view(name("x"), 0).state is ClaimState.UNKNOWN
    with pytest.raises(KeyError):
        driver.index.renew(name("x"), 0)


@pytest.mark.parametrize("settle", ["complete", "release"])
def test_a_settled_claim_is_remembered_for_two_leases_swept_or_not(driver: Driver, settle: str) -> None:
    claim = driver.claim("a", 1, [1]).claim
    assert claim is not None
    getattr(driver, settle)(claim)
    expected = ClaimState.DONE if settle == "complete" else ClaimState.RELEASED
    for passed_ms, state in ((2 * LEASE_MS - 1, expected), (1, ClaimState.UNKNOWN)):
        driver.now_ms += passed_ms
        assert driver.index.view(claim, driver.now_ms).state is state
        driver.index.sweep(driver.now_ms)
        assert driver.index.view(claim, driver.now_ms).state is state
    assert driver.claim("b", 1, [1]).words == ["DUPLICATE" if settle == "complete" else "GRANTED"]


def test_an_open_claim_is_remembered_for_as_long_as_it_holds_an_id(driver: Driver) -> None:
    claim = driver.claim("a", 1, [1, 2]).claim
    assert claim is not None
    driver.now_ms += 100 * LEASE_MS
    driver.claim("b", 1, [1])
    driver.index.sweep(driver.now_ms)
    assert driver.index.view(claim, driver.now_ms).state is ClaimState.OPEN
    driver.claim("b", 2, [2])
    assert driver.index.view(claim, driver.now_ms).state is ClaimState.UNKNOWN


def test_a_late_copy_of_a_forgotten_call_is_a_claim_of_its_own(driver: Driver) -> None:
    first = driver.claim("a", 1, [1]).claim
    driver.release(first)
    driver.now_ms += 2 * LEASE_MS
    late = driver.claim("a", 1, [1])
    assert late.words == ["GRANTED"]
    assert late.claim != first
    assert first is not None
    assert driver.index.view(first, driver.now_ms).state is ClaimState.UNKNOWN


def test_forgetting_an_old_claim_leaves_the_new_one_of_the_same_call_known(driver: Driver) -> None:
    driver.release(driver.claim("a", 1, [1]).claim)
    driver.now_ms += 2 * LEASE_MS
    second = driver.claim("a", 1, [1])
    driver.index.sweep(driver.now_ms)
    again = driver.claim("a", 1, [1])
    assert (again.words, again.claim, again.asked.again) == (["GRANTED"], second.claim, True)


def test_open_claims_are_those_that_hold_an_id(driver: Driver) -> None:
    first, second = driver.claim("a", 1, [1, 2]).claim, driver.claim("b", 1, [3]).claim
    assert driver.index.open_claims == 2
    driver.now_ms += LEASE_MS
    driver.claim("c", 1, [1, 2, 3, 4])
    assert driver.index.open_claims == 1
    driver.complete(first)
    driver.complete(second)
    assert (driver.index.open_claims, driver.index.ids) == (1, 4)


def test_a_remembered_claim_of_many_ids_is_one_row_and_its_takeover_another(driver: Driver) -> None:
    driver.claim("a", 1, range(20))
    driver.now_ms += LEASE_MS
    claim = driver.claim("b", 1, range(40)).claim
    assert claim is not None
    view = driver.index.view(claim, driver.now_ms)
    assert (view.granted, view.named, view.lease_left_ms) == (40, 40, LEASE_MS)
    driver.complete(claim)
    takeovers = [takeover for _, _, takeover, _ in driver.index.contents().values()]
    assert (takeovers.count(True), takeovers.count(False)) == (20, 20)


def test_two_ids_of_one_place_or_one_tag_are_two_ids() -> None:
    driver, place = Driver(NARROW), 12345
    near = [(1, place), (2, place), (1, place + 1), (1 << 20 | 1, place + 2)]
    ids = np.array(near, np.uint64)
    decision = driver.index.decide(name("a"), 1, bytes(16), ids, 0)
    assert decision.actions.tolist() == [Action.GRANT] * 4


def test_an_index_that_was_never_compiled_needs_no_numba_to_answer() -> None:
    index = ClaimIndex(Widths(), compiled=False)
    decision = index.decide(name("a"), 1, bytes(16), fingerprints([1]), 0)
    assert decision.actions.tolist() == [Action.GRANT]
