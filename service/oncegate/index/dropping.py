"""The loop that lets slots go whose ids lie in an archive by now. The rules of `kernels` hold here too."""

from typing import Any

import numpy as np

from oncegate.index.arrays import U32, U64, Holders, Slots
from oncegate.index.compiling import compiled
from oncegate.index.probing import HALF, STATE_DONE, STATE_TAKEN, find, place_of, row_at, segment_of


def drop_ids(
    slots: Slots, holders: Holders, ids: U64, tag_mask: np.uint64, gone: int, freed: U32, named: U32
) -> tuple[int, int, int]:
    """Let the slots of those ids that are done or taken name the row `gone`, which holds nothing: they are dead now.

    How many slots there were; how many rows that leaves without a slot, claim or pin, which are `freed`; how many of
    the rows have a claim that can be named, which get into `named`, some of them again and again.
    """
    words, base, capacity = slots.words, slots.base, slots.capacity
    count = free = claimed = 0
    for i in range(ids.shape[0]):
        tag, place = ids[i, 0] & tag_mask, place_of(ids, i)
        segment = segment_of(tag, base.size)
        slot: Any = find(words, base[segment], capacity[segment], tag, place)
        row = row_at(words, slot) if slot >= 0 else np.int64(-1)
        if row < 0 or holders.state[row] not in (STATE_DONE, STATE_TAKEN):
            continue
        words[slot, 1] = place << HALF | np.uint64(gone + 1)
        holders.slots[row] -= 1
        holders.named[row] -= 1
        count += 1
        if holders.kept[row] != 0:
            if claimed == 0 or named[claimed - 1] != row:
                named[claimed] = row
                claimed += 1
        elif holders.slots[row] == 0 and holders.pins[row] == 0:
            freed[free] = row
            free += 1
    holders.slots[gone] += count
    return count, free, claimed


PLAIN, COMPILED = drop_ids, compiled(drop_ids)
