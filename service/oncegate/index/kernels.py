"""The loops over ids: look up and decide, insert, take back; and both sets of all kernels.

Rule 1: no rule stands here. Which action belongs to (state, asker) is an array from `core.decisions`.
Rule 2: plain scalar loops. `PLAIN` runs them as they are and is the reference; `COMPILED` is the same by numba.
Rule 3: what is compiled into them stands in the files that `compiling` names, for the cache to know when it is stale.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oncegate.core.decisions import Action, Asker, IdState
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.arrays import (
    I32,
    I64,
    NO_ROW,
    SAME_INDEX,
    U32,
    U64,
    Answers,
    Holders,
    Question,
    Rules,
    Slots,
)
from oncegate.index.compiling import compiled, helper
from oncegate.index.moving import drop_of, fill, gather, gather_of, move, retire, staying, unpin
from oncegate.index.probing import (
    HALF,
    STATE_DONE,
    STATE_OPEN,
    STATE_TAKEN,
    U32_MAX,
    find,
    holds,
    place_of,
    row_at,
    segment_of,
)

# numba takes plain integers as constants.
_ASKERS = len(Asker)
_ABSENT, _LIVE, _OVER, _IS_DONE, _IS_TAKEN = (int(state) for state in IdState)
_SAME_CLAIM, _REPEAT, _SAME_TOKEN, _OTHER = (int(asker) for asker in Asker)
_AGAIN, _SAME, _BUSY, _DUPLICATE = int(Action.GRANT_AGAIN), int(Action.SAME), int(Action.BUSY), int(Action.DUPLICATE)
_TAKEOVER, _OWN, _SAME_VERDICT = int(Flag.TAKEOVER), int(Flag.OWN), int(Verdict.SAME)


@helper
def _state_of(holders: Holders, row: Any, now_ms: int) -> int:
    state = holders.state[row]
    if state == STATE_DONE:
        return _IS_DONE
    if state == STATE_TAKEN:
        return _IS_TAKEN
    if state != STATE_OPEN:
        return _ABSENT
    return _LIVE if now_ms < holders.lease_until_ms[row] else _OVER


@helper
def _asker_of(holders: Holders, row: Any, question: Question) -> int:
    own = holders.token[row, 0] == question.token_0 and holders.token[row, 1] == question.token_1
    if question.known:
        return _SAME_CLAIM if own and holders.call[row] == question.call else _REPEAT
    return _SAME_TOKEN if own else _OTHER


@helper
def _first_of(ids: U64, i: int, tag_mask: np.uint64, seen: NDArray[np.int32]) -> Any:
    """Where the id of `ids[i]` stands first in this request; enters it into `seen` when that is `i` itself."""
    mask = seen.size - 1
    tag, place = ids[i, 0] & tag_mask, place_of(ids, i)
    at = np.int64(place) & mask
    while seen[at] >= 0:
        j = seen[at]
        if place_of(ids, j) == place and ids[j, 0] & tag_mask == tag:
            return j
        at = (at + 1) & mask
    seen[at] = i
    return i


def decide(
    slots: Slots,
    holders: Holders,
    rules: Rules,
    question: Question,
    ids: U64,
    seen: NDArray[np.int32],
    answers: Answers,
    cold: I32,
) -> tuple[int, bool]:
    """Fill `answers`; the highest position that a verdict other than BUSY rests on, and whether one is granted again.

    `seen`: scratch of a power of two greater than the number of ids, all -1. Nothing else is written. `cold`: the row
    that holds each id where no slot's row does, -1 for none; no elements: no id has one.
    """
    words, base, capacity = slots.words, slots.base, slots.capacity
    rests_on: Any = 0
    again = False
    for i in range(ids.shape[0]):
        first = _first_of(ids, i, question.tag_mask, seen)
        if first != i:
            answers.actions[i], answers.verdicts[i], answers.numbers[i] = SAME_INDEX, _SAME_VERDICT, first
            continue
        tag = ids[i, 0] & question.tag_mask
        segment = segment_of(tag, base.size)
        slot = find(words, base[segment], capacity[segment], tag, place_of(ids, i))
        row = row_at(words, slot) if slot >= 0 else np.int64(-1)
        dead: Any = np.int64(-1)
        if cold.size > 0 and cold[i] >= 0 and (row < 0 or not holds(holders.state[row])):
            dead, row = row, np.int64(cold[i])
        state, asker = _ABSENT, _REPEAT if question.known else _OTHER
        if row >= 0:
            state, asker = _state_of(holders, row, question.now_ms), _asker_of(holders, row, question)
        action = rules.actions[state * _ASKERS + asker]
        verdict: Any = rules.verdicts[action]
        number: Any = np.int64(0)
        if row >= 0 and action != _BUSY:
            rests_on = max(rests_on, holders.position[row])
            if dead >= 0:
                rests_on = max(rests_on, holders.position[dead])
        if action == _AGAIN:
            again = True
            verdict = verdict | _TAKEOVER if row >= 0 and holders.takeover[row] else verdict
        elif action == _SAME and row >= 0:
            number = np.int64(holders.call[row])
        elif action == _BUSY and state == _LIVE:
            number = min(holders.lease_until_ms[row] - question.now_ms, U32_MAX)
        elif action == _DUPLICATE and row >= 0:
            own = holders.token[row, 0] == question.token_0 and holders.token[row, 1] == question.token_1
            verdict = verdict | _OWN if own else verdict
        answers.actions[i], answers.verdicts[i], answers.numbers[i] = action, verdict, number
    return rests_on, again


def upsert(slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, row: int, previous: U32) -> tuple[int, int]:
    """Let each id's slot name `row`; `previous` gets what it named before. How many slots are new, how many were dead.

    There must be room: an empty slot is always left in every segment. Only its own id takes a dead slot over.
    """
    words, base, capacity, used = slots.words, slots.base, slots.capacity, slots.used
    new = revived = 0
    for i in range(ids.shape[0]):
        tag, place = ids[i, 0] & tag_mask, place_of(ids, i)
        segment = segment_of(tag, base.size)
        slot = find(words, base[segment], capacity[segment], tag, place)
        if slot < 0:
            slot, new = -1 - slot, new + 1
            words[slot, 0], previous[i] = tag, NO_ROW
            used[segment] += 1
        else:
            before = row_at(words, slot)
            previous[i] = before
            holders.slots[before] -= 1
            if holds(holders.state[before]):
                holders.named[before] -= 1
            else:
                revived += 1
        words[slot, 1] = place << HALF | np.uint64(row + 1)
    holders.slots[row] += ids.shape[0]
    holders.named[row] += ids.shape[0]
    return new, revived


def restore(slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, row: int, previous: U32) -> int:
    """Undo `upsert` of the same arguments, the table having moved or not; how many slots name `row` still.

    Those are the slots that were new: they cannot be emptied within a chain, and die with `row`.
    """
    words, left = slots.words, 0
    for i in range(ids.shape[0] - 1, -1, -1):
        tag, place = ids[i, 0] & tag_mask, place_of(ids, i)
        segment = segment_of(tag, slots.base.size)
        slot = find(words, slots.base[segment], slots.capacity[segment], tag, place)
        assert slot >= 0
        before = np.int64(previous[i])
        if before == NO_ROW:
            left += 1
            continue
        words[slot, 1] = place << HALF | np.uint64(before + 1)
        holders.slots[before] += 1
        if holds(holders.state[before]):
            holders.named[before] += 1
    holders.slots[row], holders.named[row] = left, 0
    return left


def demand(ids: U64, tag_mask: np.uint64, counts: I64) -> None:
    """Add to `counts`, per segment, how many of the ids belong there."""
    for i in range(ids.shape[0]):
        counts[segment_of(ids[i, 0] & tag_mask, counts.size)] += 1


class Kernels(NamedTuple):
    """Both sets have the same calls, so that every test can run on either."""

    decide: Callable[..., tuple[int, bool]]
    upsert: Callable[..., tuple[int, int]]
    restore: Callable[..., int]
    demand: Callable[..., None]
    staying: Callable[..., int]
    move: Callable[..., tuple[int, int]]
    retire: Callable[..., tuple[int, int, int]]
    unpin: Callable[..., int]
    gather: Callable[..., int]
    gather_of: Callable[..., int]
    drop_of: Callable[..., tuple[int, int]]
    fill: Callable[..., int]


PLAIN = Kernels(decide, upsert, restore, demand, staying, move, retire, unpin, gather, gather_of, drop_of, fill)
COMPILED = Kernels(*(compiled(kernel) for kernel in PLAIN))
