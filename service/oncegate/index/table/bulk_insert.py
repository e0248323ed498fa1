"""The loops that put many claims' ids into the table at once, by segments. The rules of `kernels` hold here too."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oncegate.arraytypes import I64, U32, U64
from oncegate.index.table.arrays import Slots
from oncegate.index.table.jit import compiled
from oncegate.index.table.prefetch import READ_AHEAD, touch
from oncegate.index.table.probe import HALF, begin_of, find, place_of, row_at, segment_of


def gather(ids: U64, first: int, tag_mask: np.uint64, row: int, gathered: U64, counts: I64) -> Any:
    """Add the ids from `first` on to what is gathered of their segments, as slots of `row`, until one has no room; the
    first that was not added. `gathered`: shape (segments, room, 2); `counts`: how many there are of each."""
    for i in range(first, ids.shape[0]):
        tag = ids[i, 0] & tag_mask
        segment = segment_of(tag, counts.size)
        at = counts[segment]
        if at == gathered.shape[1]:
            return i
        gathered[segment, at, 0] = tag
        gathered[segment, at, 1] = place_of(ids, i) << HALF | np.uint64(row + 1)
        counts[segment] = at + 1
    return ids.shape[0]


def spread(slots: Slots, begin: int, end: int, gathered: U64, counts: I64, lost: U32) -> tuple[int, int]:
    """Put what is gathered of the segments from `begin` to `end` into them, in its order; there must be room.

    How many slots are new; how many named a row before, which get into `lost`, a row as often as it lost one.
    """
    words, kept, losses, new = slots.words, slots.digests, 0, 0
    for segment in range(begin, end):
        base, capacity, last = slots.base[segment], slots.capacity[segment], counts[segment] - 1
        for i in range(last + 1):
            touch(words, base + begin_of(gathered[segment, min(i + READ_AHEAD, last), 1] >> HALF, capacity))
            tag, word = gathered[segment, i, 0], gathered[segment, i, 1]
            slot = find(words, base, capacity, tag, word >> HALF)
            if slot < 0:
                slot = -1 - slot
                words[slot, 0] = tag
                slots.used[segment] += 1
                new += 1
            else:
                lost[losses] = row_at(words, slot)
                losses += 1
            words[slot, 1] = word
            if kept.size > 0:
                kept[slot] = 0
    return new, losses


class Kernels(NamedTuple):
    gather: Callable[..., int]
    spread: Callable[..., tuple[int, int]]


PLAIN = Kernels(gather, spread)
COMPILED = Kernels(*(compiled(kernel) for kernel in PLAIN))
