"""Every cell of the tables, one test each: reached alone, and compared with a second, handwritten copy."""

import numpy as np
import pytest

from oncegate.core import claims as decisions
from oncegate.core.cells import Cell
from oncegate.core.claims import (
    CLAIM,
    LOOK_UP,
    PRODUCE,
    SETTLE,
    TAKE,
    Action,
    Asker,
    ClaimState,
    IdState,
    LeaseExpiry,
    Verb,
)
from oncegate.index.claims.store import Widths
from tests.support.index.cells import EXPECTED, check_cell, reach
from tests.support.index.driver import NARROW
from tests.support.index.settle_cells import check_settle_cell, reach_settle

TABLES: dict[str, dict[tuple[IdState, Asker], Cell[Action]]] = {
    "claim": CLAIM,
    "produce": PRODUCE,
    "take": TAKE,
    "look up": LOOK_UP,
}

both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
all_widths = pytest.mark.parametrize("widths", [Widths(), NARROW], ids=["wide", "narrow"])
each_verb = pytest.mark.parametrize("verb", TABLES)
each_cell = pytest.mark.parametrize("cell", list(CLAIM), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")
each_settling = pytest.mark.parametrize("cell", list(SETTLE), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")


@both_kernels
@all_widths
@each_verb
@each_cell
def test_an_id_is_answered_according_to_its_cell(
    verb: str, cell: tuple[IdState, Asker], widths: Widths, compiled: bool
) -> None:
    check_cell(verb, cell, widths, compiled)


@both_kernels
@pytest.mark.parametrize("expiry", [LeaseExpiry.HOLD, LeaseExpiry.FAIL])
@each_verb
@each_cell
def test_an_id_is_answered_according_to_its_cell_without_takeovers(
    verb: str, cell: tuple[IdState, Asker], expiry: LeaseExpiry, compiled: bool
) -> None:
    check_cell(verb, cell, Widths(), compiled, expiry)


@both_kernels
@each_verb
@each_cell
def test_a_test_of_a_cell_reaches_just_that_cell(
    verb: str, cell: tuple[IdState, Asker], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mine, others in ((Action.DUPLICATE, Action.BUSY), (Action.BUSY, Action.DUPLICATE)):
        only = bytes(mine if (state, asker) == cell else others for state in IdState for asker in Asker)
        driver, ask = reach(verb, cell, Widths(), compiled)
        rules = driver.index.store.rules[verb]._replace(actions=np.array(list(only), np.uint8))
        monkeypatch.setitem(driver.index.store.rules, verb, rules)
        assert ask().actions.tolist() == [mine]
        assert ask().states.tolist() == [cell[0]]


@both_kernels
@all_widths
@each_settling
def test_a_settling_does_what_its_cell_defines(cell: tuple[Verb, ClaimState], widths: Widths, compiled: bool) -> None:
    check_settle_cell(cell, widths, compiled)


@each_settling
def test_a_settling_test_reaches_just_its_cell(cell: tuple[Verb, ClaimState], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "SETTLE", {cell: SETTLE[cell]})
    driver, claim = reach_settle(cell[1], Widths(), compiled=True)
    assert driver.index.view(claim, driver.now_ms).state is cell[1]
    check_settle_cell(cell, Widths(), compiled=True)


def test_no_cell_is_empty_and_each_has_its_rule_and_reason() -> None:
    for verb, table in TABLES.items():
        assert set(table) == {(state, asker) for state in IdState for asker in Asker}
        assert {state: len(answers) for state, answers in EXPECTED[verb].items()} == dict.fromkeys(IdState, len(Asker))
        assert all(cell.rule and cell.reason for cell in table.values())
    assert set(SETTLE) == {(verb, state) for verb in Verb for state in ClaimState}
    assert all(cell.rule and cell.reason for cell in SETTLE.values())


@each_verb
def test_a_missing_cell_is_an_error_and_no_default(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in list(CLAIM):
        with monkeypatch.context() as patch:
            patch.delitem(TABLES[verb], cell)
            with pytest.raises(KeyError):
                check_cell(verb, cell, Widths(), True)


def test_a_missing_settling_is_an_error_and_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in list(SETTLE):
        with monkeypatch.context() as patch:
            patch.delitem(SETTLE, cell)
            with pytest.raises(KeyError):
                check_settle_cell(cell, Widths(), True)


@each_verb
def test_slots_removed_by_a_sweep_change_no_action(verb: str) -> None:
    """A sweep removes dead slots: the former holder is then a stranger, or a repeat without a holder."""
    action = {cell: TABLES[verb][cell].effect for cell in CLAIM}
    assert action[IdState.ABSENT, Asker.SAME_CLAIM] == action[IdState.ABSENT, Asker.REPEAT]
    assert action[IdState.ABSENT, Asker.SAME_TOKEN] == action[IdState.ABSENT, Asker.OTHER]


def test_a_repeat_is_granted_only_what_its_claim_holds() -> None:
    granting = {Action.GRANT, Action.TAKE_OVER}
    for (_, asker), cell in CLAIM.items():
        assert asker not in (Asker.SAME_CLAIM, Asker.REPEAT) or cell.effect not in granting


def test_rows_granted_to_a_produce_must_be_written() -> None:
    """`again` would leave the rows out of the entry, and report them as written."""
    assert Action.GRANT_AGAIN not in {cell.effect for cell in PRODUCE.values()}


def test_a_look_up_grants_nothing_and_has_the_same_answer_for_every_caller() -> None:
    assert {cell.effect for cell in LOOK_UP.values()} == {
        Action.FREE,
        Action.LEFT,
        Action.BUSY,
        Action.DUPLICATE,
        Action.STALE,
    }
    assert all(len({LOOK_UP[state, asker] for asker in Asker}) == 1 for state in IdState)


def test_a_take_has_no_calls_because_owners_have_none() -> None:
    assert Action.SAME not in {cell.effect for cell in TAKE.values()}
