"""Finds slots, and prefetches their memory; shared by all kernels.

A table consists of segments with open addressing and linear probing. The lowest bits of the tag choose the segment. The
home (32 other bits of the fingerprint) chooses where in the segment a chain begins: at `home * capacity >> 32`, so that
slots are nearly in the order of their homes for any capacity. Two ids are equal if tag and home are; two different ids
are with probability 2^-96.

The slot of an id is at a random address, and reading it takes some 100 ns. Prefetching the slots of the next ids more
than halves that (10 million ids).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from oncegate.arraytypes import I64, U64
from oncegate.core.claims import ClaimState
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.jit import helper

# numba treats plain integers as constants.
STATE_OPEN, STATE_DONE, STATE_UNKNOWN = int(ClaimState.OPEN), int(ClaimState.DONE), int(ClaimState.UNKNOWN)
STATE_TAKEN = TAKEN
U32_MAX = 0xFFFF_FFFF
LOW, HALF = np.uint64(U32_MAX), np.uint64(32)


@helper
def home_of(ids: U64, i: int) -> Any:
    """Returns an id's home: the 32 bits that determine where its chain begins."""
    return ids[i, 1] & LOW


@helper
def segment_of(tag: np.uint64, segments: int) -> Any:
    """Returns the segment of an id; the number of segments is a power of two."""
    return np.int64(tag & np.uint64(segments - 1))


@helper
def begin_of(home: Any, capacity: Any) -> Any:
    """Returns the position in its segment at which the chain of an id begins."""
    return np.int64(home) * capacity >> 32


@helper
def find(words: U64, base: Any, capacity: Any, tag: np.uint64, home: np.uint64) -> Any:
    """Returns the slot of this id in its segment, or `-1 - s` if s is the empty slot that ends its chain."""
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
    """Returns the row to which a slot points; -1 for an empty slot."""
    return np.int64(words[slot, 1] & LOW) - 1


@helper
def holds(state: Any) -> bool:
    """Returns whether a row in this state still holds its ids."""
    return bool(state in (STATE_OPEN, STATE_DONE, STATE_TAKEN))


# Annotated for mypy: numba ships no types.
_intrinsic: Callable[[Callable[..., Any]], Callable[..., Any]] = intrinsic
_overload: Callable[[Any], Callable[[Any], Any]] = overload
# Number of ids to prefetch ahead: latency over the time per id. From 8 to 24 the measured times were equal.
READ_AHEAD = 16
# A chain has three slots on average, and a cache line holds four: most chains end in one of two lines.
_SLOTS_ON = 3
_WORDS_PER_SLOT = 2


def touch(words: U64, slot: Any) -> None:
    """Prefetches a slot in compiled kernels; plain Python does nothing."""


@_intrinsic
def _prefetch(typingctx: Any, words: Any, at: Any) -> Any:
    """Emits LLVM's prefetch instruction (read, keep in all levels) for the 64-bit word at index `at`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [address, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(words, at), codegen


@_overload(touch)
def _compiled_touch(words: Any, slot: Any) -> Any:
    def compiled_touch(words: Any, slot: Any) -> None:
        _prefetch(words, slot * _WORDS_PER_SLOT)

    return compiled_touch


@helper
def touch_chain(words: U64, base: I64, capacity: I64, ids: U64, i: Any, tag_mask: Any) -> None:
    """Prefetches the chain of `ids[i]`, or of the last id if `i` is past the end."""
    i = min(i, ids.shape[0] - 1)
    segment = segment_of(ids[i, 0] & tag_mask, base.size)
    at = base[segment] + begin_of(ids[i, 1] & LOW, capacity[segment])
    touch(words, at)
    touch(words, at + _SLOTS_ON)
