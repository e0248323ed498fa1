"""Changes every cell of produce and take, and of taken ids, to something plausible, and checks that a test fails.

The model detects changes that break a promise. CELLS: the model cannot detect the change, but the cell's own test does,
like every other change. The reason is given beside each.
"""

import pytest

from oncegate.core.cells import Cell
from oncegate.core.claims import CLAIM, PRODUCE, TAKE, Action, Asker, IdState
from oncegate.index.claims.store import Widths
from tests.model.kit.outcome import Outcome, first_broken, walk
from tests.model.kit.replies import Broken
from tests.model.mixed.stories import STORIES
from tests.model.mixed.walks import SETUPS
from tests.support.index.cells import check_cell

WALKS_MAX = 1_500
# Changes that dozens of walks do not detect, each with the seed of a walk that does. If walks change, search again.
KNOWN_SEEDS = {
    "produce-ABSENT-OTHER-BUSY": 93,
    "produce-CLAIMED_LIVE-REPEAT-TAKE_OVER": 178,
    "produce-CLAIMED_LIVE-REPEAT-DUPLICATE": 178,
    "produce-CLAIMED_OVER-REPEAT-DUPLICATE": 192,
    "produce-CLAIMED_OVER-OTHER-GRANT": 40,
    "produce-CLAIMED_OVER-OTHER-BUSY": 94,
    "produce-DONE-REPEAT-TAKE_OVER": 25,
    "produce-DONE_OTHER-REPEAT-DUPLICATE": 289,
    "take-ABSENT-OTHER-BUSY": 137,
    "take-CLAIMED_OVER-OTHER-GRANT": 39,
    "take-CLAIMED_OVER-OTHER-BUSY": 28,
}
CELLS = "cells"
# The asker would have to be the owner: 16 random bytes against a hash of its name.
NO_OWNER = CELLS
# The (token, call) is a claim's and comes with another digest: TOKEN_REUSED, before any cell.
OTHER_DIGEST = CELLS
# A take has no calls to repeat, and its owner never holds a claim.
NO_CALLS = CELLS
# A take has no payload that could differ.
NO_PAYLOAD = CELLS
# An attempt brings the same payload of an id each time.
ONE_PAYLOAD = CELLS
# A repeat with this answer asks again in a new call, which another cell decides.
ASKS_ANEW = CELLS
# An attempt gets DUPLICATE for an unwritten row, or turns green on it, whichever comes first.
UNWRITTEN = "LOSS|P4"

# (cell, wrong action) -> what the first bad walk breaks, one of these; "name: property" for a story.
Wrong = dict[tuple[IdState, Asker, Action], str]
WRONG_CLAIM: Wrong = {
    (IdState.TAKEN, Asker.SAME_CLAIM, Action.GRANT_AGAIN): NO_OWNER,
    (IdState.TAKEN, Asker.REPEAT, Action.GRANT_AGAIN): "P1",
    (IdState.TAKEN, Asker.REPEAT, Action.BUSY): ASKS_ANEW,
    (IdState.TAKEN, Asker.SAME_TOKEN, Action.TAKE_OVER): NO_OWNER,
    (IdState.TAKEN, Asker.OTHER, Action.GRANT): "P1",
    (IdState.TAKEN, Asker.OTHER, Action.TAKE_OVER): "P1",
    (IdState.TAKEN, Asker.OTHER, Action.BUSY): "P6",
    (IdState.DONE_OTHER, Asker.SAME_CLAIM, Action.DUPLICATE): OTHER_DIGEST,
    (IdState.DONE_OTHER, Asker.REPEAT, Action.DUPLICATE): "CONFLICT",
    (IdState.DONE_OTHER, Asker.SAME_TOKEN, Action.DUPLICATE): ONE_PAYLOAD,
    (IdState.DONE_OTHER, Asker.OTHER, Action.DUPLICATE): "CONFLICT",
    (IdState.DONE_OTHER, Asker.OTHER, Action.GRANT): "CONFLICT",
    (IdState.DONE_OTHER, Asker.OTHER, Action.BUSY): "CONFLICT",
}
WRONG_PRODUCE: Wrong = {
    (IdState.ABSENT, Asker.SAME_CLAIM, Action.GRANT_AGAIN): "retired: COUNT",
    (IdState.ABSENT, Asker.SAME_CLAIM, Action.BUSY): ASKS_ANEW,
    (IdState.ABSENT, Asker.REPEAT, Action.GRANT_AGAIN): "released: O1",
    (IdState.ABSENT, Asker.REPEAT, Action.DUPLICATE): "released: LOSS",
    (IdState.ABSENT, Asker.REPEAT, Action.BUSY): ASKS_ANEW,
    (IdState.ABSENT, Asker.SAME_TOKEN, Action.GRANT_AGAIN): "O1",
    (IdState.ABSENT, Asker.SAME_TOKEN, Action.DUPLICATE): UNWRITTEN,
    (IdState.ABSENT, Asker.OTHER, Action.GRANT_AGAIN): "O1",
    (IdState.ABSENT, Asker.OTHER, Action.BUSY): "P6",
    (IdState.ABSENT, Asker.OTHER, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM, Action.GRANT): OTHER_DIGEST,
    (IdState.CLAIMED_LIVE, Asker.REPEAT, Action.TAKE_OVER): "P2",
    (IdState.CLAIMED_LIVE, Asker.REPEAT, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN, Action.GRANT): "P2",
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.GRANT): "P2",
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.TAKE_OVER): "P2",
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM, Action.GRANT): OTHER_DIGEST,
    (IdState.CLAIMED_OVER, Asker.REPEAT, Action.GRANT): "expired: P5",
    (IdState.CLAIMED_OVER, Asker.REPEAT, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN, Action.GRANT): "own expired: P5",
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.GRANT): "P5",
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.GRANT_AGAIN): "O1",
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.BUSY): "P6",
    (IdState.DONE, Asker.SAME_CLAIM, Action.GRANT): "P1",
    (IdState.DONE, Asker.REPEAT, Action.TAKE_OVER): "P1",
    (IdState.DONE, Asker.SAME_TOKEN, Action.GRANT): "P1",
    (IdState.DONE, Asker.SAME_TOKEN, Action.BUSY): "P6",
    (IdState.DONE, Asker.OTHER, Action.GRANT): "P1",
    (IdState.DONE, Asker.OTHER, Action.BUSY): "P6",
    (IdState.TAKEN, Asker.SAME_CLAIM, Action.GRANT): NO_OWNER,
    (IdState.TAKEN, Asker.REPEAT, Action.GRANT): "P1",
    (IdState.TAKEN, Asker.SAME_TOKEN, Action.GRANT): NO_OWNER,
    (IdState.TAKEN, Asker.OTHER, Action.GRANT): "P1",
    (IdState.TAKEN, Asker.OTHER, Action.BUSY): "P6",
    (IdState.DONE_OTHER, Asker.SAME_CLAIM, Action.DUPLICATE): OTHER_DIGEST,
    (IdState.DONE_OTHER, Asker.REPEAT, Action.DUPLICATE): "CONFLICT",
    (IdState.DONE_OTHER, Asker.SAME_TOKEN, Action.DUPLICATE): ONE_PAYLOAD,
    (IdState.DONE_OTHER, Asker.OTHER, Action.DUPLICATE): "CONFLICT",
    (IdState.DONE_OTHER, Asker.OTHER, Action.GRANT): "CONFLICT",
    (IdState.DONE_OTHER, Asker.OTHER, Action.BUSY): "CONFLICT",
}
WRONG_TAKE: Wrong = {
    (IdState.ABSENT, Asker.SAME_CLAIM, Action.BUSY): NO_CALLS,
    (IdState.ABSENT, Asker.REPEAT, Action.BUSY): NO_CALLS,
    # Only a retired id's slot could still name its owner, and then a later owner may be granted it as well.
    (IdState.ABSENT, Asker.SAME_TOKEN, Action.BUSY): CELLS,
    (IdState.ABSENT, Asker.OTHER, Action.GRANT_AGAIN): UNWRITTEN,
    (IdState.ABSENT, Asker.OTHER, Action.BUSY): "P6",
    (IdState.ABSENT, Asker.OTHER, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_LIVE, Asker.SAME_CLAIM, Action.GRANT): NO_CALLS,
    (IdState.CLAIMED_LIVE, Asker.REPEAT, Action.GRANT): NO_CALLS,
    (IdState.CLAIMED_LIVE, Asker.SAME_TOKEN, Action.GRANT): NO_OWNER,
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.GRANT): "P2",
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.TAKE_OVER): "P2",
    (IdState.CLAIMED_LIVE, Asker.OTHER, Action.DUPLICATE): UNWRITTEN,
    (IdState.CLAIMED_OVER, Asker.SAME_CLAIM, Action.GRANT): NO_CALLS,
    (IdState.CLAIMED_OVER, Asker.REPEAT, Action.GRANT): NO_CALLS,
    (IdState.CLAIMED_OVER, Asker.SAME_TOKEN, Action.GRANT): NO_OWNER,
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.GRANT): "P5",
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.GRANT_AGAIN): UNWRITTEN,
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.BUSY): "P6",
    (IdState.CLAIMED_OVER, Asker.OTHER, Action.DUPLICATE): UNWRITTEN,
    (IdState.DONE, Asker.SAME_CLAIM, Action.GRANT): NO_CALLS,
    (IdState.DONE, Asker.REPEAT, Action.GRANT): NO_CALLS,
    (IdState.DONE, Asker.SAME_TOKEN, Action.GRANT): NO_OWNER,
    (IdState.DONE, Asker.OTHER, Action.GRANT): "P1",
    (IdState.DONE, Asker.OTHER, Action.BUSY): "P6",
    (IdState.TAKEN, Asker.SAME_CLAIM, Action.DUPLICATE): NO_CALLS,
    (IdState.TAKEN, Asker.REPEAT, Action.GRANT): NO_CALLS,
    (IdState.TAKEN, Asker.SAME_TOKEN, Action.DUPLICATE): "LOSS",
    (IdState.TAKEN, Asker.SAME_TOKEN, Action.BUSY): "LOSS",
    (IdState.TAKEN, Asker.OTHER, Action.GRANT): "P1",
    (IdState.TAKEN, Asker.OTHER, Action.GRANT_AGAIN): "P1",
    (IdState.TAKEN, Asker.OTHER, Action.BUSY): "P6",
    (IdState.DONE_OTHER, Asker.SAME_CLAIM, Action.GRANT): NO_PAYLOAD,
    (IdState.DONE_OTHER, Asker.REPEAT, Action.GRANT): NO_PAYLOAD,
    (IdState.DONE_OTHER, Asker.SAME_TOKEN, Action.GRANT): NO_PAYLOAD,
    (IdState.DONE_OTHER, Asker.OTHER, Action.CONFLICT): NO_PAYLOAD,
}
WRONG: dict[str, Wrong] = {"claim": WRONG_CLAIM, "produce": WRONG_PRODUCE, "take": WRONG_TAKE}
TABLES = {"claim": CLAIM, "produce": PRODUCE, "take": TAKE}
CHANGES = [(verb, *change) for verb, wrong in WRONG.items() for change in wrong]


def name_of(change: tuple[str, IdState, Asker, Action]) -> str:
    return "-".join([change[0], *(part.name for part in change[1:])])


@pytest.mark.parametrize("change", CHANGES, ids=name_of)
def test_a_wrong_cell_is_caught(change: tuple[str, IdState, Asker, Action], monkeypatch: pytest.MonkeyPatch) -> None:
    verb, state, asker, wrong = change
    monkeypatch.setitem(TABLES[verb], (state, asker), Cell(wrong, "wrong", "wrong"))
    with pytest.raises(AssertionError):
        check_cell(verb, (state, asker), Widths(), True)
    by = WRONG[verb][state, asker, wrong]
    if ": " in by:
        story, broken = by.split(": ")
        with pytest.raises(Broken, match=f"^{broken}: "):
            STORIES[story][0]()
    elif by != CELLS:
        seed = KNOWN_SEEDS.get(name_of(change), 1)
        assert len(first_broken(SETUPS["mixed, late"], WALKS_MAX, seed) & set(by.split("|"))) == 1


@pytest.mark.parametrize("name", STORIES)
def test_a_story_ends_well_under_the_tables_in_force(name: str) -> None:
    tell, answer = STORIES[name]
    assert tell() == answer


@pytest.mark.parametrize("verb", TABLES)
def test_without_a_cell_nothing_starts(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for cell in list(TABLES[verb]):
        with monkeypatch.context() as patch:
            patch.delitem(TABLES[verb], cell)
            with pytest.raises(KeyError):
                walk(SETUPS["mixed"], 1, Outcome())


def test_each_cell_has_a_wrong_action_here_and_no_action_here_is_the_right_one() -> None:
    # Ids of the walk carry no time; for those see `tests/engine/usecases/test_id_times.py`.
    past = {(IdState.PAST, asker) for asker in Asker}
    assert {change[:2] for change in WRONG_PRODUCE} == set(PRODUCE) - past
    assert {change[:2] for change in WRONG_TAKE} == set(TAKE) - past
    assert {change[:2] for change in WRONG_CLAIM} == {
        (state, asker) for state in (IdState.TAKEN, IdState.DONE_OTHER) for asker in Asker
    }
    for verb, wrong in WRONG.items():
        assert all(TABLES[verb][state, asker].effect != action for state, asker, action in wrong)
