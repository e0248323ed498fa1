"""Defines the compiled loops over rows and whole segments: move, retire, copy in and out, and gather for the cold tier.

The rules of `kernels` apply here too. No slot is emptied on its own, since the change that made it may be undone: it
dies with its row and is omitted when its segment moves (`move`). Only slots that leave memory are emptied at once
(`delete`).
"""

from typing import Any

import numpy as np

from oncegate.arraytypes import I64, U8, U32, U64
from oncegate.index.table.arrays import NO_ROW, Holders, SharedRows, Slots, Small
from oncegate.index.table.jit import helper
from oncegate.index.table.probe import (
    HALF,
    LOW,
    STATE_DONE,
    STATE_TAKEN,
    STATE_UNKNOWN,
    find,
    holds,
    row_at,
    segment_of,
)

_SLOTS_PER_PAGE = 256


@helper
def _goes(state: Any, pins: Any) -> bool:
    """Returns whether a move omits a row's slots: the row holds no ids, and no undo can change that."""
    return bool(pins == 0 and not holds(state))


def staying(slots: Slots, segment: int, holders: Holders) -> int:
    """Counts the slots of a segment that a move would keep."""
    words, states, pins, base, count = slots.words, holders.state, holders.pins, slots.base[segment], 0
    for at in range(base, base + slots.capacity[segment]):
        row = row_at(words, at)
        if row >= 0 and not _goes(states[row], pins[row]):
            count += 1
    return count


def move(
    slots: Slots, segment: int, capacity: int, holders: Holders, sweeping: bool, chain: U64, digests: U32, freed: U32
) -> Any:
    """Rehashes a segment in place to `capacity` slots, at least as many as before.

    Returns the number of rows `freed` by it, and the number of slots omitted. Sweeping omits the dead slots of unpinned
    rows.

    Chains are moved from the last to the first. An id never moves to the left of the beginning of its chain, so none
    lands among chains still to be moved. Exceptions are chains that wrap around the end; those are moved again with the
    chain that they then belong to. chain: as many elements as slots in use; digests too, if slots have any.
    """
    keeping = slots.digests.size > 0
    words, states, pins = slots.words, holders.state, holders.pins
    remembered, named_by = holders.remembered, holders.slots
    base, free, dropped = slots.base[segment], 0, 0
    # Reading a page before writing it would map it twice, and all of these are written soon.
    for new in range(base + slots.capacity[segment], base + capacity, _SLOTS_PER_PAGE):
        words[new, 1] = np.uint64(0)
    at = slots.capacity[segment] - 1
    while at >= 0:
        length = 0
        while at >= 0 and words[base + at, 1] & LOW != 0:
            row = row_at(words, base + at)
            if sweeping and _goes(states[row], pins[row]):
                dropped += 1
                named_by[row] -= 1
                if named_by[row] == 0 and remembered[row] == 0:
                    freed[free] = row
                    free += 1
            else:
                chain[length, 0], chain[length, 1] = words[base + at, 0], words[base + at, 1]
                if keeping:
                    digests[length] = slots.digests[base + at]
                length += 1
            words[base + at, 1] = 0
            at -= 1
        for i in range(length):
            target = np.int64(chain[i, 1] >> HALF) * capacity >> 32
            while words[base + target, 1] & LOW != 0:
                target += 1
                if target == capacity:
                    target = np.int64(0)
            words[base + target, 0], words[base + target, 1] = chain[i, 0], chain[i, 1]
            if keeping:
                slots.digests[base + target] = digests[i]
        at -= 1
    slots.capacity[segment] = capacity
    slots.used[segment] -= dropped
    return free, dropped


def retire(
    holders: Holders, wall_ms: I64, rows: U32, before_ms: int, position: int, due: U32, states: U8, positions: I64
) -> tuple[int, int, int]:
    """Retires and pins the rows among `rows` that were done or taken before `before_ms`.

    Returns the number of rows, ids and slots. due, states, positions: receive the rows and their previous state and
    position.
    """
    row_states, row_positions, pins = holders.state, holders.position, holders.pins
    named, counts = holders.named, holders.slots
    count = ids = slots = 0
    for row in rows:
        state = row_states[row]
        if state in (STATE_DONE, STATE_TAKEN) and wall_ms[row] < before_ms:
            due[count], states[count], positions[count] = row, state, row_positions[row]
            ids, slots, count = ids + named[row], slots + counts[row], count + 1
            row_states[row], row_positions[row] = STATE_UNKNOWN, position
            pins[row] += 1
    return count, ids, slots


def unpin(holders: Holders, rows: U32, freed: U32) -> int:
    """Unpins rows, each pinned once by a change that can no longer be undone. Returns how many become free."""
    pins, counts, remembered, free = holders.pins, holders.slots, holders.remembered, 0
    for row in rows:
        assert pins[row] > 0
        pins[row] -= 1
        if pins[row] == 0 and counts[row] == 0 and remembered[row] == 0:
            freed[free] = row
            free += 1
    return free


@helper
def _pool_at(buckets: I64, wall_ms: Any, bits: int) -> Any:
    """Returns the index of a time's bucket in the ascending list of buckets; -1 if it is not listed."""
    bucket, low, high = wall_ms >> bits, 0, buckets.size
    while low < high:
        middle = (low + high) >> 1
        if buckets[middle] < bucket:
            low = middle + 1
        else:
            high = middle
    return low if low < buckets.size and buckets[low] == bucket else -1


def pool(
    slots: Slots, begin: int, end: int, holders: Holders, times: I64, small: Small, pools: SharedRows, freed: U32
) -> tuple[int, int]:
    """Moves slots from `begin` to `end` from small done rows to the shared row of the row's bucket.

    A row is skipped while its claim can be named or its change undone, if it holds more than `small.most` ids, or if it
    has data that a shared row could not have. A shared row gets the latest of its rows' `times` and positions. Returns
    the number of rows `freed`, and of slots moved.
    """
    words, states, pins, remembered = slots.words, holders.state, holders.pins, holders.remembered
    named, counts, positions = holders.named, holders.slots, holders.position
    buckets, rows, bits = pools
    topics, beside, scoped, no_topic, most = small
    free = count = 0
    for at in range(begin, end):
        row = row_at(words, at)
        if row < 0 or states[row] != STATE_DONE or remembered[row] != 0 or pins[row] != 0 or named[row] > most:
            continue
        if topics[row] != no_topic or beside[row] != 0 or scoped[row] != 0:
            continue
        bucket = _pool_at(buckets, times[row], bits)
        if bucket < 0 or rows[bucket] == row:
            continue
        shared = rows[bucket]
        words[at, 1] = words[at, 1] & ~LOW | np.uint64(shared + 1)
        times[shared], positions[shared] = max(times[shared], times[row]), max(positions[shared], positions[row])
        counts[shared], named[shared] = counts[shared] + 1, named[shared] + 1
        counts[row], named[row], count = counts[row] - 1, named[row] - 1, count + 1
        if counts[row] == 0:
            freed[free] = row
            free += 1
    return free, count


def gather(slots: Slots, segment: int, numbers: U32, out: U64, digests: U32) -> int:
    """Copies the slots of a segment with their rows renumbered by `numbers`. Returns how many.

    Slots of a row with NO_ROW, or beyond `numbers`, are omitted. digests: receives their payload digests, if slots have
    any. out, digests: one element longer than the number of slots in use, as for `gather_of`.
    """
    words, slot_digests, base, count = slots.words, slots.digests, slots.base[segment], np.int64(0)
    last = np.int64(numbers.size) - 1
    if last < 0:
        return 0
    for at in range(base, base + slots.capacity[segment]):
        row = row_at(words, at)
        number = np.int64(numbers[min(max(row, np.int64(0)), last)])
        out[count, 0] = words[at, 0]
        out[count, 1] = words[at, 1] & ~LOW | np.uint64(number + 1)
        if slot_digests.size > 0:
            digests[count] = slot_digests[at]
        count += np.int64(row >= 0) & np.int64(row <= last) & np.int64(number != NO_ROW)
    return count  # type: ignore[return-value]


def gather_of(slots: Slots, segment: int, holders: Holders, is_picked: U8, out: U64) -> int:
    """Copies a segment's slots that hold their ids for a selected row. Returns how many.

    is_picked: by row + 1, 0 or 1. out: one element longer than the number of slots in use. Every slot is written, and
    counted only if its row is picked: that branch is unpredictable, and a misprediction costs more than a copy.
    """
    words, states, base, count = slots.words, holders.state, slots.base[segment], np.int64(0)
    for at in range(base, base + slots.capacity[segment]):
        row = np.int64(words[at, 1] & LOW)
        out[count, 0], out[count, 1] = words[at, 0], words[at, 1]
        count += np.int64(is_picked[row]) & np.int64(holds(states[max(row, np.int64(1)) - 1]))
    return count  # type: ignore[return-value]


def fill(
    slots: Slots, states: U8, given: U64, digests: U32, tag_mask: np.uint64, begin: int, end: int, named: I64
) -> int:
    """Inserts slots from `gather` into the segments from `begin` to `end`, which must have enough free slots.

    Returns the number of slots examined before the first invalid one. Invalid is a slot of a row that holds nothing or
    is beyond `named`, a tag that is too wide, or an id that is already there.

    named: number of slots by row; increased.
    digests: one per slot, or empty.
    """
    words, base, capacity, used, slot_digests = slots.words, slots.base, slots.capacity, slots.used, slots.digests
    for i in range(given.shape[0]):
        tag, row = given[i, 0], row_at(given, i)
        segment = segment_of(tag, base.size)
        if segment < begin or segment >= end:
            continue
        if row < 0 or row >= named.size or tag & tag_mask != tag or not holds(states[row]):
            return i
        slot = find(words, base[segment], capacity[segment], tag, given[i, 1] >> HALF)
        if slot >= 0:
            return i
        words[-1 - slot, 0], words[-1 - slot, 1] = tag, given[i, 1]
        if slot_digests.size > 0:
            slot_digests[-1 - slot] = digests[i] if digests.size > 0 else np.uint32(0)
        used[segment] += 1
        named[row] += 1
    return len(given)
