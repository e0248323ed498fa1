"""The loops over slots: look up and decide, insert, take back, move to a new table.

Rule 1: no rule stands here. Which action belongs to (state, asker) is an array from `core.decisions`.
Rule 2: plain scalar loops. `PLAIN` runs them as they are and is the reference; `COMPILED` is the same by numba.

A table is open addressing with linear probing from `place & (capacity - 1)`; capacities are powers of two. Two
ids are the same when tag and place are: of two different ones, about chain length × 2^-96 of all look-ups say so.
A slot is never emptied in place: it dies with its row and is left out when the slots move (`move`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from oncegate.core.decisions import Action, Asker, ClaimState, IdState
from oncegate.core.verdicts import Flag, Verdict

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

NO_ROW = 0xFFFF_FFFF
SAME_INDEX = 250
# A row's state is its claim's, or this: its ids were taken by an owner, who has no claim to settle.
TAKEN = len(ClaimState)

# numba takes plain integers as constants.
_ASKERS = len(Asker)
_ABSENT, _LIVE, _OVER, _IS_DONE, _IS_TAKEN = (int(state) for state in IdState)
_SAME_CLAIM, _REPEAT, _SAME_TOKEN, _OTHER = (int(asker) for asker in Asker)
_OPEN, _DONE, _TAKEN = int(ClaimState.OPEN), int(ClaimState.DONE), TAKEN
_AGAIN, _SAME, _BUSY, _DUPLICATE = int(Action.GRANT_AGAIN), int(Action.SAME), int(Action.BUSY), int(Action.DUPLICATE)
_TAKEOVER, _OWN, _SAME_VERDICT = int(Flag.TAKEOVER), int(Flag.OWN), int(Verdict.SAME)
_U32_MAX = 0xFFFF_FFFF


class Slots(NamedTuple):
    """One slot per index: 64 bits of tag, 32 bits of position hash, the row of the claim that holds the id."""

    tag: U64
    place: U32
    row: U32


class Holders(NamedTuple):
    """What the loops need of the rows. `named` is what the claim still holds, `slots` the slots that name the row,
    dead ones too; `pins` counts the changes that may still be taken back."""

    token: U64
    call: U32
    state: U8
    takeover: U8
    lease_until_ms: I64
    position: I64
    named: I64
    slots: I64
    pins: I64


class Question(NamedTuple):
    """Who asks and when; `known` says that this (token, call) was decided before. Tags are cut to `tag_mask`."""

    token_0: np.uint64
    token_1: np.uint64
    call: int
    known: bool
    now_ms: int
    tag_mask: np.uint64


class Rules(NamedTuple):
    """`actions` at state × 4 + asker; `verdicts`: the wire byte of each action, flags of the row not yet added."""

    actions: U8
    verdicts: U8


class Answers(NamedTuple):
    """One element an id; filled in by `decide`."""

    actions: U8
    verdicts: U8
    numbers: U32


def find(slots: Slots, tag: np.uint64, place: np.uint32) -> Any:
    """The slot of this id, or `-1 - s` where s is the empty slot that ends its chain."""
    mask = slots.row.size - 1
    at = np.int64(place) & mask
    while slots.row[at] != NO_ROW:
        if slots.place[at] == place and slots.tag[at] == tag:
            return at
        at = (at + 1) & mask
    return -1 - at


def _holds(state: Any) -> bool:
    """Whether a row in this state still holds its ids."""
    return bool(state in (_OPEN, _DONE, _TAKEN))


def _state_of(holders: Holders, row: Any, now_ms: int) -> int:
    state = holders.state[row]
    if state == _DONE:
        return _IS_DONE
    if state == _TAKEN:
        return _IS_TAKEN
    if state != _OPEN:
        return _ABSENT
    return _LIVE if now_ms < holders.lease_until_ms[row] else _OVER


def _asker_of(holders: Holders, row: Any, question: Question) -> int:
    own = holders.token[row, 0] == question.token_0 and holders.token[row, 1] == question.token_1
    if question.known:
        return _SAME_CLAIM if own and holders.call[row] == question.call else _REPEAT
    return _SAME_TOKEN if own else _OTHER


def _first_of(ids: U64, i: int, tag_mask: np.uint64, seen: NDArray[np.int32]) -> Any:
    """Where the id of `ids[i]` stands first in this request; enters it into `seen` when that is `i` itself."""
    mask = seen.size - 1
    tag, place = ids[i, 0] & tag_mask, np.uint32(ids[i, 1] & np.uint64(_U32_MAX))
    at = np.int64(place) & mask
    while seen[at] >= 0:
        j = seen[at]
        if np.uint32(ids[j, 1] & np.uint64(_U32_MAX)) == place and ids[j, 0] & tag_mask == tag:
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
    rests_on: Any = 0
    again = False
    for i in range(ids.shape[0]):
        first = _first_of(ids, i, question.tag_mask, seen)
        if first != i:
            answers.actions[i], answers.verdicts[i], answers.numbers[i] = SAME_INDEX, _SAME_VERDICT, first
            continue
        slot = find(slots, ids[i, 0] & question.tag_mask, np.uint32(ids[i, 1] & np.uint64(_U32_MAX)))
        row = np.int64(slots.row[slot]) if slot >= 0 else np.int64(-1)
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

    There must be room: an empty slot is always left. Only its own id takes a dead slot over.
    """
    new = revived = 0
    for i in range(ids.shape[0]):
        tag, place = ids[i, 0] & tag_mask, np.uint32(ids[i, 1] & np.uint64(_U32_MAX))
        slot = find(slots, tag, place)
        if slot < 0:
            slot, new = -1 - slot, new + 1
            slots.tag[slot], slots.place[slot], previous[i] = tag, place, NO_ROW
        else:
            before = slots.row[slot]
            previous[i] = before
            holders.slots[before] -= 1
            if _holds(holders.state[before]):
                holders.named[before] -= 1
            else:
                revived += 1
        slots.row[slot] = row
    holders.slots[row] += ids.shape[0]
    holders.named[row] += ids.shape[0]
    return new, revived


def restore(slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, row: int, previous: U32) -> int:
    """Undo `upsert` of the same arguments, the table having moved or not; how many slots name `row` still.

    Those are the slots that were new: they cannot be emptied within a chain, and die with `row`.
    """
    left = 0
    for i in range(ids.shape[0] - 1, -1, -1):
        slot = find(slots, ids[i, 0] & tag_mask, np.uint32(ids[i, 1] & np.uint64(_U32_MAX)))
        assert slot >= 0
        before = previous[i]
        if before == NO_ROW:
            left += 1
            continue
        slots.row[slot] = before
        holders.slots[before] += 1
        if _holds(holders.state[before]):
            holders.named[before] += 1
    holders.slots[row], holders.named[row] = left, 0
    return left


def move(old: Slots, new: Slots, holders: Holders) -> tuple[int, int]:
    """Copy the slots into an empty table, without the dead ones of unpinned rows; how many came, how many are dead."""
    mask = new.row.size - 1
    used = dead = 0
    for i in range(old.row.size):
        row = old.row[i]
        if row == NO_ROW:
            continue
        if not _holds(holders.state[row]):
            if holders.pins[row] == 0:
                holders.slots[row] -= 1
                continue
            dead += 1
        at = np.int64(old.place[i]) & mask
        while new.row[at] != NO_ROW:
            at = (at + 1) & mask
        new.tag[at], new.place[at], new.row[at] = old.tag[i], old.place[i], row
        used += 1
    return used, dead


class Kernels(NamedTuple):
    """Both sets have the same calls, so that every test can run on either."""

    decide: Callable[..., tuple[int, bool]]
    upsert: Callable[..., tuple[int, int]]
    restore: Callable[..., int]
    move: Callable[..., tuple[int, int]]


for _helper in (find, _holds, _state_of, _asker_of, _first_of):
    register_jitable(_helper)


def _compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = njit(nogil=True, cache=True)(kernel)
    return compiled


PLAIN = Kernels(decide, upsert, restore, move)
COMPILED = Kernels(_compiled(decide), _compiled(upsert), _compiled(restore), _compiled(move))
