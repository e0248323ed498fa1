"""Changes every cell of both tables to something plausible, and checks that the model or the cell's own test fails.

The model detects changes that break a promise. A change that only makes an answer late or odd (a repeat refused until
its lease ends, a settled claim settled again) breaks none; the cell's own test detects it, like every other change.
"""

from collections.abc import Callable, Iterable
from enum import Enum

import pytest

from oncegate.core import claims as decisions
from oncegate.core.cells import Cell
from oncegate.core.claims import CLAIM, SETTLE, Action, Asker, ClaimState, Effect, IdState, Verb
from oncegate.index.claims.store import Widths
from tests.model.claims.stories import late_copy_meets_a_released_id
from tests.model.claims.walks import SETUPS
from tests.model.kit.outcome import Outcome, first_broken, walk
from tests.model.kit.replies import Broken
from tests.support.index.cells import check_cell
from tests.support.index.settle_cells import check_settle_cell

CELLS, STORY = "cells", "story"
WALKS_MAX = 1_500
# Changes that a hundred walks do not detect, each with the seed of a walk that does. If walks change, search again.
KNOWN_SEEDS = {
    "ABSENT-SAME_CLAIM-GRANT_AGAIN": 105,
    "CLAIMED_OVER-REPEAT-GRANT_AGAIN": 127,
    "RENEW-RELEASED-REFUSE_UNKNOWN": 123,
    "RELEASE-RELEASED-MARK_DONE": 63,
    "RENEW-DONE": 106,
    "RENEW-RELEASED": 73,
}

# (cell, wrong action) -> the property that breaks in the model, or CELLS if the model cannot detect it.
WRONG_CLAIM: dict[tuple[IdState, Asker, Action], str] = {
    (IdState.ABSENT, Asker.SAME_CLAIM, Action.GRANT): CELLS,
    (IdState.ABSENT, Asker.SAME_CLAIM, Action.GRANT_AGAIN): "P2",
    (IdState.ABSENT, Asker.REPEAT, Action.GRANT): STORY,
    (IdState.ABSENT, Asker.REPEAT, Action.GRANT_AGAIN): "P2",
    (IdState.ABSENT, Asker.SAME_TOKEN, Action.BUSY): "P6",
    (IdState.ABSENT, Asker.SAME_TOKEN, Action.DUPLICATE): "LOSS",
    (IdState.ABSENT, Asker.OTHER, Action.BUSY): "P6",
    (IdState.ABSENT, Asker.OTHER, Action.DUPLICATE): "LOSS",
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM, Action.BUSY): CELLS,
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM, Action.DUPLICATE): "LOSS",
    (IdState.CLAIMED_LIVE, Asker.REPEAT, Action.TAKE_OVER): "P2",
    (IdState.CLAIMED_LIVE, Asker.REPEAT, Action.DUPLICATE): "P4",
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN, Action.GRANT): "P2",
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN, Action.DUPLICATE): "P4",
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.GRANT): "P2",
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.DUPLICATE): "LOSS",
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM, Action.BUSY): CELLS,
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM, Action.DUPLICATE): "LOSS",
    (IdState.CLAIMED_OVER, Asker.REPEAT, Action.GRANT_AGAIN): "P5",
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN, Action.SAME): "P6",
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN, Action.DUPLICATE): "P4",
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.GRANT): "P5",
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.BUSY): "P6",
    (IdState.DONE, Asker.SAME_CLAIM, Action.GRANT_AGAIN): "P1",
    (IdState.DONE, Asker.REPEAT, Action.GRANT): "P1",
    (IdState.DONE, Asker.SAME_TOKEN, Action.TAKE_OVER): "P1",
    (IdState.DONE, Asker.SAME_TOKEN, Action.BUSY): "P6",
    (IdState.DONE, Asker.OTHER, Action.GRANT): "P1",
    (IdState.DONE, Asker.OTHER, Action.BUSY): "P6",
}
WRONG_SETTLE: dict[tuple[Verb, ClaimState, Effect], str] = {
    (Verb.RENEW, ClaimState.OPEN, Effect.NOTHING): "P2",
    (Verb.RENEW, ClaimState.OPEN, Effect.MARK_DONE): "LOSS",
    (Verb.RENEW, ClaimState.DONE, Effect.FREE): "P4",
    (Verb.RENEW, ClaimState.DONE, Effect.REFUSE_UNKNOWN): "P6",
    (Verb.RENEW, ClaimState.RELEASED, Effect.EXTEND): CELLS,
    (Verb.RENEW, ClaimState.RELEASED, Effect.REFUSE_UNKNOWN): "P6",
    (Verb.RENEW, ClaimState.UNKNOWN, Effect.NOTHING): "P6",
    (Verb.COMPLETE, ClaimState.OPEN, Effect.NOTHING): "P4",
    (Verb.COMPLETE, ClaimState.OPEN, Effect.REFUSE_UNKNOWN): "P6",
    (Verb.COMPLETE, ClaimState.DONE, Effect.FREE): "P6",
    (Verb.COMPLETE, ClaimState.DONE, Effect.REFUSE_UNKNOWN): "P6",
    (Verb.COMPLETE, ClaimState.RELEASED, Effect.MARK_DONE): CELLS,
    (Verb.COMPLETE, ClaimState.UNKNOWN, Effect.NOTHING): "P4",
    (Verb.RELEASE, ClaimState.OPEN, Effect.MARK_DONE): "LOSS",
    (Verb.RELEASE, ClaimState.OPEN, Effect.REFUSE_RELEASED): "P6",
    (Verb.RELEASE, ClaimState.DONE, Effect.FREE): CELLS,
    (Verb.RELEASE, ClaimState.RELEASED, Effect.MARK_DONE): "LOSS",
    (Verb.RELEASE, ClaimState.RELEASED, Effect.REFUSE_UNKNOWN): "P6",
    (Verb.RELEASE, ClaimState.UNKNOWN, Effect.NOTHING): CELLS,
}


def name_of(change: Iterable[Enum]) -> str:
    return "-".join(part.name for part in change)


def broken_by(name: str, change: Iterable[Enum]) -> set[str]:
    return first_broken(SETUPS[name], WALKS_MAX, KNOWN_SEEDS.get(name_of(change), 1))


def expect_caught(by: str, change: Iterable[Enum], check: Callable[[], None]) -> None:
    with pytest.raises(AssertionError):
        check()
    if by == STORY:
        with pytest.raises(Broken):
            late_copy_meets_a_released_id()
    elif by != CELLS:
        assert broken_by("default", change) == {by}


@pytest.mark.parametrize("change", WRONG_CLAIM, ids=name_of)
def test_a_wrong_claim_cell_is_caught(change: tuple[IdState, Asker, Action], monkeypatch: pytest.MonkeyPatch) -> None:
    state, asker, wrong = change
    monkeypatch.setitem(decisions.CLAIM, (state, asker), Cell(wrong, "wrong", "wrong"))
    expect_caught(WRONG_CLAIM[change], change, lambda: check_cell("claim", (state, asker), Widths(), True))


@pytest.mark.parametrize("change", WRONG_SETTLE, ids=name_of)
def test_a_wrong_settling_is_caught(change: tuple[Verb, ClaimState, Effect], monkeypatch: pytest.MonkeyPatch) -> None:
    verb, state, wrong = change
    monkeypatch.setitem(decisions.SETTLE, (verb, state), Cell(wrong, "wrong", "wrong"))
    expect_caught(WRONG_SETTLE[change], change, lambda: check_settle_cell((verb, state), Widths(), True))


@pytest.mark.parametrize("cell", CLAIM, ids=name_of)
def test_without_a_claim_cell_nothing_starts(cell: tuple[IdState, Asker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(decisions.CLAIM, cell)
    with pytest.raises(KeyError):
        check_cell("claim", cell, Widths(), True)
    with pytest.raises(KeyError):
        walk(SETUPS["default"], 1, Outcome())


# A correct client never completes a released claim, nor releases a completed one.
NEVER_WALKED = {(Verb.COMPLETE, ClaimState.RELEASED), (Verb.RELEASE, ClaimState.DONE)}


@pytest.mark.parametrize("cell", SETTLE, ids=name_of)
def test_without_a_settling_cell_the_model_stops(
    cell: tuple[Verb, ClaimState], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(decisions.SETTLE, cell)
    with pytest.raises(KeyError):
        check_settle_cell(cell, Widths(), True)
    if cell in NEVER_WALKED:
        return
    with pytest.raises(KeyError):
        broken_by("late", cell)


def test_each_cell_has_a_wrong_action_here_and_no_action_here_is_the_right_one() -> None:
    # Takes and payloads occur only in the mixed walk.
    others = {(state, asker) for state in (IdState.TAKEN, IdState.DONE_OTHER, IdState.PAST) for asker in Asker}
    assert {change[:2] for change in WRONG_CLAIM} == set(CLAIM) - others
    assert {change[:2] for change in WRONG_SETTLE} == set(SETTLE)
    assert all(CLAIM[state, asker].effect != wrong for state, asker, wrong in WRONG_CLAIM)
    assert all(SETTLE[verb, state].effect != wrong for verb, state, wrong in WRONG_SETTLE)
