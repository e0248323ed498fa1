"""Finds slots: what every kernel shares.

A table is segments of open addressing with linear probing. The tag's lowest bits choose the segment, the home (32
other bits of the fingerprint) chooses where in it a chain begins: at `home * capacity >> 32`, so that slots stand
nearly in the order of their homes whatever the capacity. Two ids are the same when tag and home are: of two different
ones with probability 2^-96.
"""

from typing import Any

import numpy as np

from oncegate.arraytypes import U64
from oncegate.core.claims import ClaimState
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.jit import helper

# numba takes plain integers as constants.
STATE_OPEN, STATE_DONE, STATE_UNKNOWN = int(ClaimState.OPEN), int(ClaimState.DONE), int(ClaimState.UNKNOWN)
STATE_TAKEN = TAKEN
U32_MAX = 0xFFFF_FFFF
LOW, HALF = np.uint64(U32_MAX), np.uint64(32)


@helper
def home_of(ids: U64, i: int) -> Any:
    """Returns an id's home: the 32 bits that say where in its segment its chain begins."""
    return ids[i, 1] & LOW


@helper
def segment_of(tag: np.uint64, segments: int) -> Any:
    """Returns the segment an id belongs to; there are a power of two of them."""
    return np.int64(tag & np.uint64(segments - 1))


@helper
def begin_of(home: Any, capacity: Any) -> Any:
    """Tells where in its segment the chain of an id begins."""
    return np.int64(home) * capacity >> 32


@helper
def find(words: U64, base: Any, capacity: Any, tag: np.uint64, home: np.uint64) -> Any:
    """Returns the slot of this id in its segment, or `-1 - s` where s is the empty slot that ends its chain."""
    at = begin_of(home, capacity)
    while True:
        word = words[base + at, 1]
        if word & LOW == 0:
            return -1 - (base + at)
        if word >> HALF == home and words[base + at, 0] == tag:
            return base + at
        at += 1
        if at == capacity:
            at = np.int64(0)


@helper
def row_at(words: U64, slot: Any) -> Any:
    """Returns the row that a slot names; -1 for an empty one."""
    return np.int64(words[slot, 1] & LOW) - 1


@helper
def holds(state: Any) -> bool:
    """Tells whether a row in this state still holds its ids."""
    return bool(state in (STATE_OPEN, STATE_DONE, STATE_TAKEN))
