"""The loops over ids, slots and rows: look up and decide, insert, take back, move, retire, save, load.

Rule 1: no rule stands here. Which action belongs to (state, asker) is an array from `core.decisions`.
Rule 2: plain scalar loops. `PLAIN` runs them as they are and is the reference; `COMPILED` is the same by numba.
Rule 3: all of them stand here, for numba's cache looks at one file only to know whether it is stale.

A table is segments of open addressing with linear probing. The tag's lowest bits choose the segment, the place
(32 other bits of the fingerprint) chooses where in it a chain begins: at `place * capacity >> 32`, so that slots stand
nearly in the order of their places whatever the capacity. Two ids are the same when tag and place are: of two
different ones with probability 2^-96. A slot is never emptied by itself: it dies with its row and is left out when its
segment moves (`move`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from oncegate.core.decisions import Action, Asker, ClaimState, IdState
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.arrays import (
    I64,
    NO_ROW,
    SAME_INDEX,
    TAKEN,
    U8,
    U32,
    U64,
    Answers,
    Holders,
    Question,
    Rules,
    Slots,
)

# numba takes plain integers as constants.
_ASKERS = len(Asker)
_ABSENT, _LIVE, _OVER, _IS_DONE, _IS_TAKEN = (int(state) for state in IdState)
_SAME_CLAIM, _REPEAT, _SAME_TOKEN, _OTHER = (int(asker) for asker in Asker)
_OPEN, _DONE, _UNKNOWN = int(ClaimState.OPEN), int(ClaimState.DONE), int(ClaimState.UNKNOWN)
_TAKEN = TAKEN
_AGAIN, _SAME, _BUSY, _DUPLICATE = int(Action.GRANT_AGAIN), int(Action.SAME), int(Action.BUSY), int(Action.DUPLICATE)
_TAKEOVER, _OWN, _SAME_VERDICT = int(Flag.TAKEOVER), int(Flag.OWN), int(Verdict.SAME)
_U32_MAX = 0xFFFF_FFFF
_LOW, _HALF = np.uint64(_U32_MAX), np.uint64(32)


def _helper(function: Callable[..., Any]) -> Callable[..., Any]:
    return register_jitable(function)  # type: ignore[no-any-return]


@_helper
def _place_of(ids: U64, i: int) -> Any:
    """The 32 bits that say where in its segment an id's chain begins."""
    return ids[i, 1] & _LOW


@_helper
def segment_of(tag: np.uint64, segments: int) -> Any:
    """The segment an id belongs to; there are a power of two of them."""
    return np.int64(tag & np.uint64(segments - 1))


@_helper
def find(words: U64, base: Any, capacity: Any, tag: np.uint64, place: np.uint64) -> Any:
    """The slot of this id in its segment, or `-1 - s` where s is the empty slot that ends its chain."""
    at = np.int64(place) * capacity >> 32
    while True:
        held = words[base + at, 1]
        if held & _LOW == 0:
            return -1 - (base + at)
        if held >> _HALF == place and words[base + at, 0] == tag:
            return base + at
        at += 1
        if at == capacity:
            at = np.int64(0)


@_helper
def row_at(words: U64, slot: Any) -> Any:
    """The row that a slot names; -1 for an empty one."""
    return np.int64(words[slot, 1] & _LOW) - 1


@_helper
def _holds(state: Any) -> bool:
    """Whether a row in this state still holds its ids."""
    return bool(state in (_OPEN, _DONE, _TAKEN))


@_helper
def _state_of(holders: Holders, row: Any, now_ms: int) -> int:
    state = holders.state[row]
    if state == _DONE:
        return _IS_DONE
    if state == _TAKEN:
        return _IS_TAKEN
    if state != _OPEN:
        return _ABSENT
    return _LIVE if now_ms < holders.lease_until_ms[row] else _OVER


@_helper
def _asker_of(holders: Holders, row: Any, question: Question) -> int:
    own = holders.token[row, 0] == question.token_0 and holders.token[row, 1] == question.token_1
    if question.known:
        return _SAME_CLAIM if own and holders.call[row] == question.call else _REPEAT
    return _SAME_TOKEN if own else _OTHER


@_helper
def _first_of(ids: U64, i: int, tag_mask: np.uint64, seen: NDArray[np.int32]) -> Any:
    """Where the id of `ids[i]` stands first in this request; enters it into `seen` when that is `i` itself."""
    mask = seen.size - 1
    tag, place = ids[i, 0] & tag_mask, _place_of(ids, i)
    at = np.int64(place) & mask
    while seen[at] >= 0:
        j = seen[at]
        if _place_of(ids, j) == place and ids[j, 0] & tag_mask == tag:
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
) -> tuple[int, bool]:
    """Fill `answers`; the highest position that a verdict other than BUSY rests on, and whether one is granted again.

    `seen`: scratch of a power of two greater than the number of ids, all -1. Nothing else is written.
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
        slot = find(words, base[segment], capacity[segment], tag, _place_of(ids, i))
        row = row_at(words, slot) if slot >= 0 else np.int64(-1)
        state, asker = _ABSENT, _REPEAT if question.known else _OTHER
        if row >= 0:
            state, asker = _state_of(holders, row, question.now_ms), _asker_of(holders, row, question)
        action = rules.actions[state * _ASKERS + asker]
        verdict: Any = rules.verdicts[action]
        number: Any = np.int64(0)
        if row >= 0 and action != _BUSY:
            rests_on = max(rests_on, holders.position[row])
        if action == _AGAIN:
            again = True
            verdict = verdict | _TAKEOVER if row >= 0 and holders.takeover[row] else verdict
        elif action == _SAME and row >= 0:
            number = np.int64(holders.call[row])
        elif action == _BUSY and state == _LIVE:
            number = min(holders.lease_until_ms[row] - question.now_ms, _U32_MAX)
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
        tag, place = ids[i, 0] & tag_mask, _place_of(ids, i)
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
            if _holds(holders.state[before]):
                holders.named[before] -= 1
            else:
                revived += 1
        words[slot, 1] = place << _HALF | np.uint64(row + 1)
    holders.slots[row] += ids.shape[0]
    holders.named[row] += ids.shape[0]
    return new, revived


def restore(slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, row: int, previous: U32) -> int:
    """Undo `upsert` of the same arguments, the table having moved or not; how many slots name `row` still.

    Those are the slots that were new: they cannot be emptied within a chain, and die with `row`.
    """
    words, left = slots.words, 0
    for i in range(ids.shape[0] - 1, -1, -1):
        tag, place = ids[i, 0] & tag_mask, _place_of(ids, i)
        segment = segment_of(tag, slots.base.size)
        slot = find(words, slots.base[segment], slots.capacity[segment], tag, place)
        assert slot >= 0
        before = np.int64(previous[i])
        if before == NO_ROW:
            left += 1
            continue
        words[slot, 1] = place << _HALF | np.uint64(before + 1)
        holders.slots[before] += 1
        if _holds(holders.state[before]):
            holders.named[before] += 1
    holders.slots[row], holders.named[row] = left, 0
    return left


def demand(ids: U64, tag_mask: np.uint64, counts: I64) -> None:
    """Add to `counts`, per segment, how many of the ids belong there."""
    for i in range(ids.shape[0]):
        counts[segment_of(ids[i, 0] & tag_mask, counts.size)] += 1


@_helper
def _goes(state: Any, pins: Any) -> bool:
    """Whether a move leaves out the slots of a row: nothing is held by them, and nobody can take that back."""
    return bool(pins == 0 and not _holds(state))


def staying(slots: Slots, segment: int, holders: Holders) -> int:
    """How many slots of a segment a move would keep."""
    words, states, pins, base, count = slots.words, holders.state, holders.pins, slots.base[segment], 0
    for at in range(base, base + slots.capacity[segment]):
        row = row_at(words, at)
        if row >= 0 and not _goes(states[row], pins[row]):
            count += 1
    return count


def move(slots: Slots, segment: int, capacity: int, holders: Holders, sweeping: bool, hand: U64, freed: U32) -> Any:
    """Spread a segment, where it stands, over `capacity` slots, no fewer than before; how many rows are `freed` by it,
    and how many slots were left out.

    Sweeping leaves out the dead slots of unpinned rows. Chains are taken up from the last to the first: an id never
    moves to the left of where its chain begins, so none lands among those that have yet to move; but for those that go
    round the end, which are taken up once more with the chain they then belong to. `hand`: as many as are in use.
    """
    words, states, pins, kept, named_by = slots.words, holders.state, holders.pins, holders.kept, holders.slots
    base, free, dropped = slots.base[segment], 0, 0
    at = slots.capacity[segment] - 1
    while at >= 0:
        held = 0
        while at >= 0 and words[base + at, 1] & _LOW != 0:
            row = row_at(words, base + at)
            if sweeping and _goes(states[row], pins[row]):
                dropped += 1
                named_by[row] -= 1
                if named_by[row] == 0 and kept[row] == 0:
                    freed[free] = row
                    free += 1
            else:
                hand[held, 0], hand[held, 1] = words[base + at, 0], words[base + at, 1]
                held += 1
            words[base + at, 1] = 0
            at -= 1
        for i in range(held):
            put = np.int64(hand[i, 1] >> _HALF) * capacity >> 32
            while words[base + put, 1] & _LOW != 0:
                put += 1
                if put == capacity:
                    put = np.int64(0)
            words[base + put, 0], words[base + put, 1] = hand[i, 0], hand[i, 1]
        at -= 1
    slots.capacity[segment] = capacity
    slots.used[segment] -= dropped
    return free, dropped


def retire(
    holders: Holders, wall_ms: I64, rows: U32, before_ms: int, position: int, due: U32, states: U8, positions: I64
) -> tuple[int, int, int]:
    """Let go of what those of the rows hold that are done or taken since before `before_ms`, and pin them.

    `due`, `states`, `positions` get the rows and what they were; how many, and how many ids and slots they had.
    """
    count = ids = slots = 0
    for row in rows:
        state = holders.state[row]
        if state in (_DONE, _TAKEN) and wall_ms[row] < before_ms:
            due[count], states[count], positions[count] = row, state, holders.position[row]
            ids, slots, count = ids + holders.named[row], slots + holders.slots[row], count + 1
            holders.state[row], holders.position[row] = _UNKNOWN, position
            holders.pins[row] += 1
    return count, ids, slots


def unpin(holders: Holders, rows: U32, freed: U32) -> int:
    """A change that names these rows, each once, may no longer be taken back; how many rows that frees."""
    free = 0
    for row in rows:
        assert holders.pins[row] > 0
        holders.pins[row] -= 1
        if holders.pins[row] == 0 and holders.slots[row] == 0 and holders.kept[row] == 0:
            freed[free] = row
            free += 1
    return free


def gather(slots: Slots, segment: int, holders: Holders, numbers: U32, out: U64) -> int:
    """Copy the slots of a segment that hold their ids, their rows by other numbers; how many."""
    words, states, base, count = slots.words, holders.state, slots.base[segment], 0
    for at in range(base, base + slots.capacity[segment]):
        row = row_at(words, at)
        if row >= 0 and _holds(states[row]):
            out[count, 0] = words[at, 0]
            out[count, 1] = words[at, 1] & ~_LOW | np.uint64(np.int64(numbers[row]) + 1)
            count += 1
    return count


def fill(slots: Slots, holders: Holders, given: U64, tag_mask: np.uint64, rows: int) -> int:
    """Insert slots as `gather` gave them, into a table with room; how many, before the first that cannot be.

    That is a slot of a row that holds nothing or is none of the first `rows`, of too wide a tag, or of an id that is
    there already.
    """
    words, states = slots.words, holders.state
    for i in range(given.shape[0]):
        tag, row = given[i, 0], row_at(given, i)
        if row < 0 or row >= rows or tag & tag_mask != tag or not _holds(states[row]):
            return i
        segment = segment_of(tag, slots.base.size)
        slot = find(words, slots.base[segment], slots.capacity[segment], tag, given[i, 1] >> _HALF)
        if slot >= 0:
            return i
        words[-1 - slot, 0], words[-1 - slot, 1] = tag, given[i, 1]
        slots.used[segment] += 1
        holders.slots[row] += 1
        holders.named[row] += 1
    return len(given)


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
    fill: Callable[..., int]


PLAIN = Kernels(decide, upsert, restore, demand, staying, move, retire, unpin, gather, fill)
COMPILED = Kernels(*(njit(nogil=True, cache=True)(kernel) for kernel in PLAIN))
