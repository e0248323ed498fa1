"""The arrays that kernels read and write; they grow without being copied.

Address space is reserved at once, memory is taken where it is written.
"""

import mmap
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from oncegate.arraytypes import I32, I64, U8, U32, U64
from oncegate.core.claims import ClaimState

NO_ROW = 0xFFFF_FFFF
SAME_INDEX = 250
# What `decide` gets where no id is in the cold tier.
NO_COLD: I32 = np.empty(0, np.int32)
# Where no payload has a digest.
NO_DIGESTS: U32 = np.empty(0, np.uint32)
# A row's state is its claim's, or this: its ids were taken by an owner, who has no claim to settle.
TAKEN = len(ClaimState)


class IdTimes(NamedTuple):
    """Says when ids were made, uint64 milliseconds since 1970, one an id, and up to when they are past; no elements:
    they do not carry it."""

    made_ms: U64
    past_ms: int


NO_TIMES = IdTimes(np.empty(0, np.uint64), 0)


class Slots(NamedTuple):
    """Holds the slots.

    `words`, shape (n, 2), a slot each: the tag; the home's 32 bits above the row + 1, which is 0 where it is empty.

    Per segment: its first slot, how many it has, and how many are occupied, dead ones included.
    digests: of the payload that each slot's id came with, 0 for none; no elements: none ever had one.
    """

    words: U64
    base: I64
    capacity: I64
    used: I64
    digests: U32 = NO_DIGESTS


class Holders(NamedTuple):
    """Holds what the loops need of the rows. `named` is what the claim still holds, `slots` the slots that name the
    row, dead ones too; `pins` counts the changes that may still be taken back; `remembered`: its claim can be named."""

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
    """Says who asks and when; `known` says that this (token, call) was decided before. Tags are cut to `tag_mask`.

    digests: of the payload that comes with each id, 0 for none; no elements: none comes with one. made_ms, past_ms: as
    of IdTimes.
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
    """Holds the rules.

    `actions` at state × 4 + asker; `verdicts`: the wire byte of each action, flags of the row not yet added."""

    actions: U8
    verdicts: U8


class Answers(NamedTuple):
    """Holds what is decided of each id, one element an id; filled in by `decide`.

    actions: `Action`, or SAME_INDEX. verdicts: wire bytes. numbers: what a verdict tells beside it. states: the
    `IdState` that led to the action, which several share; 0 where the id stands in the request before.
    """

    actions: U8
    verdicts: U8
    numbers: U32
    states: U8

    @classmethod
    def empty(cls, ids: int) -> "Answers":
        """Returns room for the answers about so many ids."""
        return cls(np.empty(ids, np.uint8), np.empty(ids, np.uint8), np.empty(ids, np.uint32), np.zeros(ids, np.uint8))


class BatchGrants(NamedTuple):
    """Says what several claims that are applied at once are granted, all one after the other.

    Of each id: `ids`, shape (n, 2); `hints`, what `find` said of its slot; `previous`, the row that the slot named;
    `old_digests`, what it kept of a payload.

    Of each claim: `ends`, where its ids end; `absent`, how many of their slots were new or dead; `rests_on`, as
    `decide` says, or -1: it would take ids over, and nothing was done.
    """

    ids: U64
    hints: I64
    previous: U32
    old_digests: U32
    ends: I64
    absent: I64
    rests_on: I64


class Small(NamedTuple):
    """Holds, by row: its topic, what is kept beside its ids, whether it goes with a batch; what a topic is that is
    none, and how many ids a small row holds at most."""

    topic: U32
    beside: U8
    scoped: U8
    no_topic: int
    most: int


class SharedRows(NamedTuple):
    """Holds the buckets of 2^`bits` ms that have a shared row, ascending, and these rows."""

    buckets: I64
    rows: I64
    bits: int


# Python names it from 3.13 on; the value is Linux's for x86 and ARM. Nothing is promised to what is only reserved.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_PAGE_BYTES = 4096


def reserve(layout: Mapping[str, tuple[DTypeLike, int]], length: int) -> dict[str, NDArray[Any]]:
    """Returns zeroed arrays of `length` elements each, by name; `layout`: dtype and words an element (1: a flat array).

    Where so much address space is not to be had (`ulimit -v`), all are shorter by the same power of two.
    Raises MemoryError: not even a 4,096th of it was.
    """
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
