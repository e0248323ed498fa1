"""Finds ids that occur twice in one request before any slot is read, in memory that fits the nearest CPU cache."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import U64
from oncegate.index.table.arrays import SAME_INDEX, Answers
from oncegate.index.table.jit import helper
from oncegate.index.table.probe import home_of

# With 16 bits per id, one in 32 shares its bit with an earlier id by chance and is compared.
_BITS_PER_ID = 16


@helper
def _first_of(ids: U64, i: int, tag_mask: np.uint64, seen: NDArray[np.int32]) -> Any:
    """Returns the index of the first occurrence of `ids[i]`, and records it in `seen` if that is `i` itself."""
    mask = seen.size - 1
    tag, home = ids[i, 0] & tag_mask, home_of(ids, i)
    at = np.int64(home) & mask
    while seen[at] >= 0:
        j = seen[at]
        if home_of(ids, j) == home and ids[j, 0] & tag_mask == tag:
            return j
        at = (at + 1) & mask
    seen[at] = i
    return i


@helper
def _power_above(number: int, least: int) -> int:
    power = least
    while power < number:
        power *= 2
    return power


@helper
def mark_repeats(ids: U64, tag_mask: np.uint64, answers: Answers, verdict: int) -> None:
    """Marks repeated ids in the answers: SAME_INDEX, the given verdict, and the index of the first occurrence. All
    other actions become 0.

    One bit per home rules out nearly all ids that occur once; only ids that share a bit are compared.
    """
    bits = _power_above(_BITS_PER_ID * ids.shape[0], 64)
    once, twice = np.zeros(bits >> 6, np.uint64), np.zeros(bits >> 6, np.uint64)
    shared: Any = 0
    for i in range(ids.shape[0]):
        at = np.int64(home_of(ids, i)) & (bits - 1)
        bit = np.uint64(1) << np.uint64(at & 63)
        again = once[at >> 6] & bit
        twice[at >> 6] |= again
        once[at >> 6] |= bit
        shared += np.int64(again != 0)
        answers.actions[i] = 0
    if shared == 0:
        return
    # The number of ids with a shared bit is at most twice the number of collisions.
    seen = np.full(_power_above(4 * shared, 4), -1, np.int32)
    for i in range(ids.shape[0]):
        at = np.int64(home_of(ids, i)) & (bits - 1)
        if twice[at >> 6] >> np.uint64(at & 63) & np.uint64(1):
            first = _first_of(ids, i, tag_mask, seen)
            if first != i:
                answers.actions[i], answers.verdicts[i], answers.numbers[i] = SAME_INDEX, verdict, first
