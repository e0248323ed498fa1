"""The basis of the cold tier: copied slots of chosen rows, and rows of ids without a slot."""

import numpy as np
import pytest

from oncegate.core.claims import TAKE, Action, actions
from oncegate.index.table.arrays import NO_COLD, NO_DIGESTS, Answers, Holders, Question, Rules, Slots
from oncegate.index.table.kernels import COMPILED, PLAIN, Kernels
from tests.support.index.holders import (
    DONE,
    MASK,
    OPEN,
    OWNER,
    RELEASED,
    RETIRED,
    ROWS,
    STRANGER,
    TAKEN_ROW,
    some_holders,
)

both_kernels = pytest.mark.parametrize("kernels", [COMPILED, PLAIN], ids=["compiled", "plain"])


def ids_of(row: int, count: int = 3) -> np.ndarray:
    """Returns ids of one segment of two, different for each row."""
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(2) + np.uint64(100 * row)
    return np.stack([numbers, numbers << np.uint64(20)], axis=1)


def filled(kernels: Kernels, *rows: int) -> tuple[Slots, Holders]:
    slots = Slots(np.zeros((512, 2), np.uint64), np.arange(2) * 256, np.full(2, 64), np.zeros(2, np.int64))
    holders = some_holders()
    for row in rows:
        kernels.upsert(
            slots,
            holders,
            ids_of(row),
            MASK,
            row,
            np.zeros(3, np.uint32),
            np.empty((0, 2), np.uint64),
            np.empty(0, np.int64),
            NO_DIGESTS,
        )
    return slots, holders


def take(kernels: Kernels, slots: Slots, holders: Holders, ids: np.ndarray, who: tuple, cold: np.ndarray) -> tuple:
    """Returns the actions of a take, and the position on which they depend."""
    rules = Rules(np.array(list(actions(TAKE)), np.uint8), np.zeros(len(Action), np.uint8))
    n = len(ids)
    answers = Answers(*(np.zeros(n, kind) for kind in (np.uint8, np.uint8, np.uint32, np.uint8)))
    granted = np.zeros((n, 2), np.uint64), np.zeros(n, np.int64)
    question = Question(*who, 0, False, 0, MASK)
    rests_on, *_ = kernels.decide(slots, holders, rules, question, ids, answers, cold, *granted)
    return [Action(action) for action in answers.actions.tolist()], int(rests_on)


@both_kernels
@pytest.mark.parametrize("who", [OWNER, STRANGER], ids=["owner", "stranger"])
def test_an_id_without_a_slot_is_held_by_its_cold_row(kernels: Kernels, who: tuple) -> None:
    slots, holders = filled(kernels)
    cold = np.array([DONE, TAKEN_ROW, -1], np.int32)
    expected = Action.GRANT_AGAIN if who == OWNER else Action.DUPLICATE
    assert take(kernels, slots, holders, ids_of(0), who, cold)[0] == [Action.DUPLICATE, expected, Action.GRANT]


@both_kernels
def test_a_slot_that_holds_its_id_is_believed_before_a_cold_row(kernels: Kernels) -> None:
    slots, holders = filled(kernels, OPEN)
    cold = np.full(3, DONE, np.int32)
    assert take(kernels, slots, holders, ids_of(OPEN), STRANGER, cold)[0] == [Action.BUSY] * 3


@both_kernels
def test_a_dead_slot_gives_way_to_the_cold_row_and_the_answer_rests_on_both(kernels: Kernels) -> None:
    slots, holders = filled(kernels, RELEASED)
    found = take(kernels, slots, holders, ids_of(RELEASED), STRANGER, np.full(3, DONE, np.int32))
    assert found == ([Action.DUPLICATE] * 3, 10 + RELEASED)
    assert take(kernels, slots, holders, ids_of(RELEASED), STRANGER, NO_COLD)[0] == [Action.GRANT] * 3


@both_kernels
def test_a_cold_row_that_holds_nothing_any_more_is_absent_since_its_position(kernels: Kernels) -> None:
    slots, holders = filled(kernels)
    found = take(kernels, slots, holders, ids_of(0), STRANGER, np.full(3, RETIRED, np.int32))
    assert found == ([Action.GRANT] * 3, 10 + RETIRED)


@both_kernels
def test_just_the_slots_of_wanted_rows_are_copied_unchanged(kernels: Kernels) -> None:
    slots, holders = filled(kernels, DONE, TAKEN_ROW, OPEN, RELEASED)
    wanted, out = np.zeros(ROWS + 1, np.uint8), np.zeros((13, 2), np.uint64)
    wanted[np.array([DONE, TAKEN_ROW, RELEASED]) + 1] = 1
    count = kernels.gather_of(slots, 0, holders, wanted, out)
    found = {(int(tag), int(held) >> 32, int(held & 0xFFFF_FFFF) - 1) for tag, held in out[:count]}
    expected = {(int(tag), int(place) & 0xFFFF_FFFF, row) for row in (DONE, TAKEN_ROW) for tag, place in ids_of(row)}
    assert (count, found) == (6, expected), "a released id holds nothing"
