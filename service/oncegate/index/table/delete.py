"""Deletes the slots of ids that are now in an archive. The rules of `kernels` apply to the loop here too."""

from typing import Any

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.index.table.arrays import Holders, Slots
from oncegate.index.table.jit import compiled, helper
from oncegate.index.table.probe import (
    LOW,
    READ_AHEAD,
    STATE_DONE,
    STATE_TAKEN,
    begin_of,
    find,
    home_of,
    row_at,
    segment_of,
    touch_chain,
)


@helper
def _close(slots: Slots, segment: Any, slot: Any) -> None:
    """Empties a slot and moves later slots of its chain up to close the gap (Knuth, TAOCP 3, 6.4, R)."""
    words, digests, base, capacity = slots.words, slots.digests, slots.base[segment], slots.capacity[segment]
    hole, at = slot - base, slot - base
    while True:
        at = at + 1 if at + 1 < capacity else np.int64(0)
        word = words[base + at, 1]
        if word & LOW == 0:
            break
        # Its chain begins after the hole if it is nearer to its beginning than to the hole.
        from_begin = at - begin_of(word >> np.uint64(32), capacity)
        from_hole = at - hole
        from_begin = from_begin if from_begin >= 0 else from_begin + capacity
        from_hole = from_hole if from_hole >= 0 else from_hole + capacity
        if from_begin < from_hole:
            continue
        words[base + hole, 0], words[base + hole, 1] = words[base + at, 0], word
        if digests.size > 0:
            digests[base + hole] = digests[base + at]
        hole = at
    words[base + hole, 1] = np.uint64(0)
    slots.used[segment] -= 1


def drop_ids(
    slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, freed: U32, named_rows: U32
) -> tuple[int, int, int]:
    """Empties the slots of the ids that are done or taken, and skips the other ids. Nothing else may name them or bring
    them back.

    Returns three numbers: slots emptied; rows left without slot, claim or pin, which are written to `freed`; and rows
    with a claim that can be named, which are written to `named_rows`, possibly repeatedly.
    """
    words, base, capacity = slots.words, slots.base, slots.capacity
    states, counts, named, pins = holders.state, holders.slots, holders.named, holders.pins
    remembered = holders.remembered
    count = free = claimed = 0
    for i in range(ids.shape[0]):
        touch_chain(words, base, capacity, ids, i + READ_AHEAD, tag_mask)
        tag, home = ids[i, 0] & tag_mask, home_of(ids, i)
        segment = segment_of(tag, base.size)
        slot: Any = find(words, base[segment], capacity[segment], tag, home)
        row = row_at(words, slot) if slot >= 0 else np.int64(-1)
        if row < 0 or states[row] not in (STATE_DONE, STATE_TAKEN):
            continue
        _close(slots, segment, slot)
        counts[row] -= 1
        named[row] -= 1
        count += 1
        if remembered[row] != 0:
            if claimed == 0 or named_rows[claimed - 1] != row:
                named_rows[claimed] = row
                claimed += 1
        elif counts[row] == 0 and pins[row] == 0:
            freed[free] = row
            free += 1
    return count, free, claimed


PLAIN, COMPILED = drop_ids, compiled(drop_ids)
