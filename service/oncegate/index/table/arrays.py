"""Defines the arrays that the table's compiled loops (kernels) read and write. They grow without being copied.

Address space is reserved at once; memory is allocated when a page is first written.
"""

import gc
import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from oncegate.arraytypes import I32, I64, U8, U32, U64
from oncegate.core.claims import ClaimState

NO_ROW = 0xFFFF_FFFF
SAME_INDEX = 250
# Argument of `decide` if no id is in the cold tier.
NO_COLD: I32 = np.empty(0, np.int32)
# Argument if no payload has a digest.
NO_DIGESTS: U32 = np.empty(0, np.uint32)
# A row has its claim's state, or this one: its ids were taken by an owner, which has no claim to complete or release.
TAKEN = len(ClaimState)


class IdTimes(NamedTuple):
    """The creation times of ids, uint64 milliseconds since 1970, and the time up to which an id is stale.

    Empty if the ids do not carry their time.
    """

    made_ms: U64
    past_ms: int


NO_TIMES = IdTimes(np.empty(0, np.uint64), 0)


class Slots(NamedTuple):
    """The slots of the table.

    words: shape (n, 2), one slot each: the tag; the home's 32 bits above the row + 1, which is 0 in an empty slot.
    base, capacity, used: per segment: its first slot, its number of slots, and the occupied ones, dead ones included.
    digests: of the payload of each slot's id, 0 for none; empty: no id ever had one.
    """

    words: U64
    base: I64
    capacity: I64
    used: I64
    digests: U32 = NO_DIGESTS


class Holders(NamedTuple):
    """The row columns that the kernels need.

    named: number of ids that the claim still holds.
    slots: number of slots that name the row, dead ones included.
    pins: number of changes that may still be undone.
    remembered: its claim can be named.
    """

    token: U64
    call: U32
    state: U8
    takeover: U8
    lease_until_ms: I64
    position: I64
    named: I32
    slots: I32
    pins: I32
    remembered: U8


class Question(NamedTuple):
    """The caller and the time of a request.

    known: this (token, call) was decided before.
    tag_mask: tags are cut to it.
    digests: of the payload of each id, 0 for none; empty: none has one.
    made_ms, past_ms: as in `IdTimes`.
    """

    token_0: np.uint64
    token_1: np.uint64
    call: int
    known: bool
    now_ms: int
    tag_mask: np.uint64
    digests: U32 = NO_DIGESTS
    made_ms: U64 = NO_TIMES.made_ms
    past_ms: int = 0


class Rules(NamedTuple):
    """The rules in the kernels' form.

    actions: at state × 4 + asker.
    verdicts: the wire byte of each action, without the flags of the row.
    """

    actions: U8
    verdicts: U8


class Answers(NamedTuple):
    """The decisions, one element per id; filled in by `decide`.

    actions: `Action`, or SAME_INDEX.
    verdicts: wire bytes.
    numbers: the number that accompanies a verdict.
    states: the `IdState` behind the action, since several states share one; 0 for a repetition in the request.
    """

    actions: U8
    verdicts: U8
    numbers: U32
    states: U8

    @classmethod
    def empty(cls, ids: int) -> "Answers":
        """Returns uninitialised decisions for `ids` ids."""
        return cls(np.empty(ids, np.uint8), np.empty(ids, np.uint8), np.empty(ids, np.uint32), np.zeros(ids, np.uint8))


class BatchGrants(NamedTuple):
    """The grants of several claims that are applied at once, in the claims' order.

    ids: shape (n, 2).
    hints: the result of `find` for each id.
    previous: the row that each slot named before.
    old_digests: the payload digest that each slot had before.
    ends: the end of each claim's ids.
    absent: how many slots of each claim were new or dead.
    rests_on: as returned by `decide`, or -1: the claim would take ids over, and nothing was done.
    """

    ids: U64
    hints: I64
    previous: U32
    old_digests: U32
    ends: I64
    absent: I64
    rests_on: I64


class Small(NamedTuple):
    """Columns and limits for sharing rows.

    topic, beside, scoped: by row: its topic, the data kept with its ids, and whether it is in a batch scope.
    no_topic: the number for no topic.
    most: maximum number of ids of a small row.
    """

    topic: U32
    beside: U8
    scoped: U8
    no_topic: int
    most: int


class SharedRows(NamedTuple):
    """The buckets of 2^`bits` ms that have a shared row, ascending, and these rows."""

    buckets: I64
    rows: I64
    bits: int


# Python defines it from 3.13 on. The value is Linux's for x86 and ARM. Reserved space alone costs no memory.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE_BYTES = 4096


def reserve(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> dict[str, NDArray[Any]]:
    """Returns zeroed arrays of `length` elements each, by name. layout: dtype, and words per element (1: a flat array).

    If there is not enough address space (`ulimit -v`), all arrays are shortened by the same power of two. Raises
    MemoryError if even a 4,096th is refused.
    """
    try:
        return _reserve(layout, length)
    except OSError:
        # Dropped indexes hold theirs until a full collection frees their cycles, which is rare in a large process.
        gc.collect()
    for shorter in range(13):
        try:
            return _reserve(layout, max(1, length >> shorter))
        except OSError:
            continue
    raise MemoryError(f"no address space for an index: {_bytes(layout, length >> 12)} bytes were refused")


def _reserve(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> dict[str, NDArray[Any]]:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    memory, arrays, at = mmap.mmap(-1, _bytes(layout, length), flags=flags), {}, 0
    for name, (dtype, words) in layout.items():
        flat: NDArray[Any] = np.frombuffer(memory, dtype, length * words, at)
        arrays[name] = flat if words == 1 else flat.reshape(length, words)
        at += _whole_pages(flat.nbytes)
    return arrays


def _bytes(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> int:
    return sum(_whole_pages(np.dtype(dtype).itemsize * words * length) for dtype, words in layout.values())


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE_BYTES) * _PAGE_BYTES
