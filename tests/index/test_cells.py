"""Every cell of the two tables, one test each: reached, alone, and answered as written down here a second time."""

from collections.abc import Callable

import numpy as np
import pytest

from oncegate.core import decisions
from oncegate.core.decisions import CLAIM, SETTLE, Action, Asker, ClaimState, IdState, Verb
from oncegate.index.claims import Widths
from tests.index.cells import check_claim_cell, check_settle_cell, reach_claim, reach_settle
from tests.index.driver import NARROW

both_kernels = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
all_widths = pytest.mark.parametrize("widths", [Widths(), NARROW], ids=["wide", "narrow"])


@both_kernels
@all_widths
@pytest.mark.parametrize("cell", list(CLAIM), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")
def test_an_id_is_answered_as_its_cell_says(cell: tuple[IdState, Asker], widths: Widths, compiled: bool) -> None:
    check_claim_cell(cell, widths, compiled)


@both_kernels
@pytest.mark.parametrize("cell", list(CLAIM), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")
def test_a_claim_test_reaches_just_its_cell(
    cell: tuple[IdState, Asker], compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for mine, others in ((Action.DUPLICATE, Action.BUSY), (Action.BUSY, Action.DUPLICATE)):
        only = bytes(mine if (state, asker) == cell else others for state in IdState for asker in Asker)
        driver, ask = reach_claim(cell, Widths(), compiled)
        rules = driver.index._rules._replace(actions=np.array(list(only), np.uint8))
        monkeypatch.setattr(driver.index, "_rules", rules)
        assert ask().actions.tolist() == [mine]


@both_kernels
@all_widths
@pytest.mark.parametrize("cell", list(SETTLE), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")
def test_a_settling_does_what_its_cell_says(cell: tuple[Verb, ClaimState], widths: Widths, compiled: bool) -> None:
    check_settle_cell(cell, widths, compiled)


@pytest.mark.parametrize("cell", list(SETTLE), ids=lambda cell: f"{cell[0].name}-{cell[1].name}")
def test_a_settling_test_reaches_just_its_cell(cell: tuple[Verb, ClaimState], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "SETTLE", {cell: SETTLE[cell]})
    driver, claim = reach_settle(cell[1], Widths(), compiled=True)
    assert driver.index.view(claim, driver.now_ms).state is cell[1]
    check_settle_cell(cell, Widths(), compiled=True)


def test_no_cell_is_empty_and_each_has_its_rule_and_reason() -> None:
    assert set(CLAIM) == {(state, asker) for state in IdState for asker in Asker}
    assert set(SETTLE) == {(verb, state) for verb in Verb for state in ClaimState}
    assert all(cell.rule and cell.reason for cell in (*CLAIM.values(), *SETTLE.values()))


@pytest.mark.parametrize("table", ["CLAIM", "SETTLE"])
def test_a_missing_cell_is_an_error_and_no_default(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check: Callable[..., None] = check_claim_cell if table == "CLAIM" else check_settle_cell
    for cell in list(getattr(decisions, table)):
        with monkeypatch.context() as patch:
            patch.delitem(getattr(decisions, table), cell)
            with pytest.raises(KeyError):
                check(cell, Widths(), True)


def test_what_a_sweep_takes_away_changes_no_action() -> None:
    """Of a dead slot a sweep leaves nothing: its former holder is then a stranger, or a repeat without a holder."""
    action = {cell: CLAIM[cell].action for cell in CLAIM}
    assert action[IdState.ABSENT, Asker.SAME_CLAIM] == action[IdState.ABSENT, Asker.REPEAT]
    assert action[IdState.ABSENT, Asker.SAME_TOKEN] == action[IdState.ABSENT, Asker.OTHER]


def test_a_repeat_is_granted_only_what_its_claim_holds() -> None:
    granting = {Action.GRANT, Action.TAKE_OVER}
    for (_, asker), cell in CLAIM.items():
        assert asker not in (Asker.SAME_CLAIM, Asker.REPEAT) or cell.action not in granting
