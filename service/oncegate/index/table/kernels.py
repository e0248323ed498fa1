"""Defines the compiled loops over ids, which look up, decide, insert and undo. Also holds both sets of all kernels.

Rule 1: no decision rule is in this file. The action for (state, asker) is an array from `core.claims`. Rule 2: plain
scalar loops. `PLAIN` runs them uncompiled and is the reference; `COMPILED` is the same by numba. Rule 3: everything
compiled into them is in the files that `jit` names, so that the cache detects changes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oncegate.arraytypes import I32, I64, U8, U32, U64
from oncegate.core.claims import Action, Asker, IdState
from oncegate.core.verdicts import Flag, Verdict
from oncegate.index.table.arrays import NO_ROW, SAME_INDEX, Answers, BatchGrants, Holders, Question, Rules, Slots
from oncegate.index.table.duplicates import mark_repeats
from oncegate.index.table.jit import compiled, helper
from oncegate.index.table.probe import (
    HALF,
    LOW,
    READ_AHEAD,
    STATE_DONE,
    STATE_OPEN,
    STATE_TAKEN,
    U32_MAX,
    find,
    holds,
    home_of,
    row_at,
    segment_of,
    touch,
    touch_chain,
)
from oncegate.index.table.resize import fill, gather, gather_of, move, pool, retire, staying, unpin

# numba treats plain integers as constants.
_ASKERS = len(Asker)
_ABSENT, _LIVE, _OVER, _IS_DONE, _IS_TAKEN, _IS_OTHER, _IS_PAST = (int(state) for state in IdState)
_SAME_CLAIM, _REPEAT, _SAME_TOKEN, _OTHER = (int(asker) for asker in Asker)
_GRANT, _TAKE_OVER = int(Action.GRANT), int(Action.TAKE_OVER)
_AGAIN, _SAME, _BUSY, _DUPLICATE = int(Action.GRANT_AGAIN), int(Action.SAME), int(Action.BUSY), int(Action.DUPLICATE)
_TAKEOVER, _OWN, _SAME_VERDICT = int(Flag.TAKEOVER), int(Flag.OWN), int(Verdict.SAME)
_CONFLICT = int(Action.CONFLICT)


@helper
def _state_of(state: Any, lease_until_ms: Any, now_ms: int) -> int:
    """Returns the state of an id from its row's state and lease."""
    if state == STATE_DONE:
        return _IS_DONE
    if state == STATE_TAKEN:
        return _IS_TAKEN
    if state != STATE_OPEN:
        return _ABSENT
    return _LIVE if now_ms < lease_until_ms else _OVER


@helper
def _asker_of(own: bool, same_call: bool, known: bool) -> int:
    if known:
        return _SAME_CLAIM if own and same_call else _REPEAT
    return _SAME_TOKEN if own else _OTHER


@helper
def _slot_of(words: U64, base: I64, capacity: I64, ids: U64, i: int, tag_mask: np.uint64) -> Any:
    """Returns the result of `find` for `ids[i]`."""
    tag = ids[i, 0] & tag_mask
    segment = segment_of(tag, base.size)
    return find(words, base[segment], capacity[segment], tag, home_of(ids, i))


@helper
def _holder_of(row: Any, states: U8, cold: I32, i: int) -> tuple[Any, Any]:
    """Returns the row that holds an id (`row` or its cold row), and the row that held it before; -1 for none."""
    if cold.size > 0 and cold[i] >= 0 and (row < 0 or not holds(states[row])):
        return np.int64(cold[i]), row
    return row, np.int64(-1)


@helper
def _differ(first: Any, second: Any) -> bool:
    """Returns whether two payloads differ, judging by their digests. A missing digest differs from none."""
    return bool(first != 0 and second != 0 and first != second)


@helper
def _is_past(made_ms: U64, past_ms: int, i: int) -> bool:
    """Returns whether an id is too old to be known; False for ids without a timestamp."""
    return bool(made_ms.size > 0 and made_ms[i] <= np.uint64(past_ms))


@helper
def _tell_apart(given: U32, answers: Answers, verdicts: U8) -> None:
    """Marks a repetition in the request as a conflict if its payload differs from that of the first occurrence."""
    for i in range(given.size):
        if answers.actions[i] == SAME_INDEX and _differ(given[answers.numbers[i]], given[i]):
            answers.actions[i], answers.verdicts[i], answers.numbers[i] = _CONFLICT, verdicts[_CONFLICT], 0


@helper
def decide(
    slots: Slots,
    holders: Holders,
    rules: Rules,
    question: Question,
    ids: U64,
    answers: Answers,
    cold: I32,
    granted: U64,
    hints: I64,
) -> tuple[Any, bool, int, int]:
    """Decides each id and fills `answers`.

    Returns the highest position that a verdict other than BUSY depends on, whether an id is granted again, and the
    numbers of ids granted and taken over.

    cold: the row that holds each id if no slot's row does, -1 for none; empty: no id has one.
    granted: as many elements as ids: granted ids from the first on, ids taken over from the last backwards.
    hints: the results of `find` for the granted ids.

    A cold row has no payload digest, so payloads are compared only for ids in slots. Arrays are unpacked from their
    tuples once, since numba counts references at each access.
    """
    words, base, capacity, digests, (actions, verdicts) = slots.words, slots.base, slots.capacity, slots.digests, rules
    tokens, calls, states, takeovers, leases_ms, positions = holders[:6]
    token_0, token_1, call, known, now_ms, tag_mask, given, made_ms, past_ms = question
    rests_on, again, fresh, taken, compares = np.int64(0), False, 0, 0, given.size > 0 and digests.size > 0
    mark_repeats(ids, tag_mask, answers, _SAME_VERDICT)
    _tell_apart(given, answers, verdicts)
    for i in range(ids.shape[0]):
        touch_chain(words, base, capacity, ids, i + READ_AHEAD, tag_mask)
        if answers.actions[i] != 0:
            continue
        slot = _slot_of(words, base, capacity, ids, i, tag_mask)
        row, dead = _holder_of(row_at(words, slot) if slot >= 0 else np.int64(-1), states, cold, i)
        state, asker, own = _ABSENT, _REPEAT if known else _OTHER, False
        if row >= 0:
            own = tokens[row, 0] == token_0 and tokens[row, 1] == token_1
            state, asker = _state_of(states[row], leases_ms[row], now_ms), _asker_of(own, calls[row] == call, known)
            both = compares and slot >= 0 and state == _IS_DONE and row == row_at(words, slot)
            state = _IS_OTHER if both and _differ(digests[slot], given[i]) else state
        state = _IS_PAST if state == _ABSENT and _is_past(made_ms, past_ms, i) else state
        action = actions[state * _ASKERS + asker]
        verdict, number = np.int64(verdicts[action]), np.int64(0)
        if row >= 0 and action != _BUSY:
            rests_on = max(rests_on, positions[row] if dead < 0 else max(positions[row], positions[dead]))
        if action == _GRANT:
            granted[fresh, 0], granted[fresh, 1], hints[fresh] = ids[i, 0], ids[i, 1], slot
            fresh += 1
        elif action == _TAKE_OVER:
            taken += 1
            granted[-taken, 0], granted[-taken, 1] = ids[i, 0], ids[i, 1]
        elif action == _AGAIN:
            again, verdict = True, verdict | _TAKEOVER if row >= 0 and takeovers[row] else verdict
        elif (action == _SAME and row >= 0) or (action == _BUSY and state == _LIVE):
            number = np.int64(calls[row]) if action == _SAME else min(leases_ms[row] - now_ms, np.int64(U32_MAX))
        elif action == _DUPLICATE:
            verdict = verdict | _OWN if own else verdict
        answers.actions[i], answers.verdicts[i], answers.numbers[i] = action, verdict, number
        answers.states[i] = state
    return rests_on, again, fresh, taken


@helper
def _find_at(words: U64, base: Any, capacity: Any, tag: np.uint64, home: np.uint64, hint: Any) -> Any:
    """Like `find`, given its earlier result `hint`.

    No slot has moved since: only a slot that was empty may now hold another id.
    """
    slot = hint if hint >= 0 else -1 - hint
    if words[slot, 1] & LOW == 0:
        return -1 - slot
    if words[slot, 1] >> HALF == home and words[slot, 0] == tag:
        return slot
    return find(words, base, capacity, tag, home)


@helper
def _exchange(slot_digests: U32, slot: Any, digests: U32, i: int) -> None:
    """Exchanges a slot's digest and `digests[i]`, if slots have digests; a missing one is 0."""
    if slot_digests.size > 0:
        old = slot_digests[slot]
        slot_digests[slot] = digests[i] if digests.size > 0 else np.uint32(0)
        if digests.size > 0:
            digests[i] = old


@helper
def upsert(
    slots: Slots,
    holders: Holders,
    ids: U64,
    tag_mask: np.uint64,
    row: int,
    previous: U32,
    hinted: U64,
    hints: I64,
    digests: U32,
) -> tuple[int, int]:
    """Points each id's slot to `row`. Returns the number of new slots and of slots that were dead.

    There must be room: every segment keeps an empty slot. A dead slot is reused only by its own id.

    previous: receives the row that each slot named before.
    hinted, hints: if `hinted` has the same ids, `hints` are the results of `find` for them since the last move; both
    may be empty.
    digests: of the ids' payloads, exchanged with those of the slots; empty: neither has any.
    """
    words, base, capacity, used = slots.words, slots.base, slots.capacity, slots.used
    states, named, counts, slot_digests = holders.state, holders.named, holders.slots, slots.digests
    new = revived = 0
    has_hints = hints.size == ids.shape[0]
    for i in range(ids.shape[0]):
        tag, home = ids[i, 0] & tag_mask, home_of(ids, i)
        segment = segment_of(tag, base.size)
        if has_hints and hinted[i, 0] == ids[i, 0] and hinted[i, 1] == ids[i, 1]:
            read_ahead = hints[min(i + READ_AHEAD, ids.shape[0] - 1)]
            touch(words, read_ahead if read_ahead >= 0 else -1 - read_ahead)
            slot = _find_at(words, base[segment], capacity[segment], tag, home, hints[i])
        else:
            touch_chain(words, base, capacity, ids, i + READ_AHEAD, tag_mask)
            slot = find(words, base[segment], capacity[segment], tag, home)
        if slot < 0:
            slot, new = -1 - slot, new + 1
            words[slot, 0], previous[i] = tag, NO_ROW
            used[segment] += 1
            if slot_digests.size > 0:
                slot_digests[slot] = 0
        else:
            before = row_at(words, slot)
            previous[i] = before
            counts[before] -= 1
            if holds(states[before]):
                named[before] -= 1
            else:
                revived += 1
        words[slot, 1] = home << HALF | np.uint64(row + 1)
        _exchange(slot_digests, slot, digests, i)
    counts[row] += ids.shape[0]
    named[row] += ids.shape[0]
    return new, revived


def claim_each(
    slots: Slots,
    holders: Holders,
    rules: Rules,
    now_ms: int,
    tag_mask: np.uint64,
    ids: U64,
    cold: I32,
    rows: I64,
    ends: I64,
    position: int,
    answers: Answers,
    grants: BatchGrants,
    no_digests: U32,
    made_ms: U64,
    past_ms: int,
) -> int:
    """Runs `decide`, then `upsert`, for one new claim after another. Returns the number of dead slots reused.

    Claim n has the token and call of row n, and the ids from the end of claim n-1 on. The first claim that is granted
    any id gets `position`, the next one `position + 1`. There must be room for all ids.
    """
    revived = first = filled = 0
    for n in range(rows.size):
        row, end = rows[n], ends[n]
        whole, room = slice(first, end), slice(filled, filled + end - first)
        token, call = holders.token[row], holders.call[row]
        made = made_ms[whole] if made_ms.size > 0 else made_ms
        question = Question(token[0], token[1], call, False, now_ms, tag_mask, no_digests, made, past_ms)
        part = Answers(answers.actions[whole], answers.verdicts[whole], answers.numbers[whole], answers.states[whole])
        rests_on, _, fresh, taken = decide(
            slots, holders, rules, question, ids[whole], part, cold[whole], grants.ids[room], grants.hints[room]
        )
        first, grants.rests_on[n], grants.absent[n] = end, rests_on if taken == 0 else -1, 0
        if fresh > 0 and taken == 0:
            given = slice(filled, filled + fresh)
            part_ids, hints = grants.ids[given], grants.hints[given]
            new, dead = upsert(
                slots,
                holders,
                part_ids,
                tag_mask,
                row,
                grants.previous[given],
                part_ids,
                hints,
                grants.old_digests[given],
            )
            holders.position[row], position, filled = position, position + 1, filled + fresh
            grants.absent[n], revived = new + dead, revived + dead
        grants.ends[n] = filled
    return revived


def restore(
    slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, row: int, previous: U32, digests: U32
) -> int:
    """Undoes an `upsert` with the same arguments, even if slots have moved since. Returns how many slots still name
    `row`.

    Those are the new slots: they cannot be emptied within a chain, and die with `row`.
    """
    words, left = slots.words, 0
    for i in range(ids.shape[0] - 1, -1, -1):
        tag, home = ids[i, 0] & tag_mask, home_of(ids, i)
        segment = segment_of(tag, slots.base.size)
        slot = find(words, slots.base[segment], slots.capacity[segment], tag, home)
        assert slot >= 0
        _exchange(slots.digests, slot, digests, i)
        before = np.int64(previous[i])
        if before == NO_ROW:
            left += 1
            continue
        words[slot, 1] = home << HALF | np.uint64(before + 1)
        holders.slots[before] += 1
        if holds(holders.state[before]):
            holders.named[before] += 1
    holders.slots[row], holders.named[row] = left, 0
    return left


def demand(ids: U64, tag_mask: np.uint64, counts: I64) -> None:
    """Adds the number of ids per segment to `counts`."""
    for i in range(ids.shape[0]):
        counts[segment_of(ids[i, 0] & tag_mask, counts.size)] += 1


def rows_of(slots: Slots, ids: U64, tag_mask: np.uint64, rows: I64) -> None:
    """Sets `rows` to the row to which each id's slot points, dead or alive; -1 if the id has no slot."""
    for i in range(ids.shape[0]):
        slot = _slot_of(slots.words, slots.base, slots.capacity, ids, i, tag_mask)
        rows[i] = row_at(slots.words, slot) if slot >= 0 else np.int64(-1)


class Kernels(NamedTuple):
    """The loops over ids; both sets have the same signatures, so that every test can run on either."""

    decide: Callable[..., tuple[int, bool, int, int]]
    upsert: Callable[..., tuple[int, int]]
    claim_each: Callable[..., int]
    restore: Callable[..., int]
    demand: Callable[..., None]
    staying: Callable[..., int]
    move: Callable[..., tuple[int, int]]
    retire: Callable[..., tuple[int, int, int]]
    unpin: Callable[..., int]
    gather: Callable[..., int]
    gather_of: Callable[..., int]
    fill: Callable[..., int]
    pool: Callable[..., tuple[int, int]]
    rows_of: Callable[..., None]


PLAIN = Kernels(
    *(decide, upsert, claim_each, restore, demand, staying, move, retire, unpin, gather, gather_of, fill, pool),
    rows_of,
)
COMPILED = Kernels(*(compiled(kernel) for kernel in PLAIN))
