"""Inserts many claims' ids into the table at once, segment by segment: how a start takes them in.

One claim after the other, each id waits for a line of memory anywhere in the table. Collected by segment first, those
of one segment find it in the processor's cache, and no segment touches another, so two threads have half of them each.
The rules of `kernels` hold for the loops here too.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from oncegate.arraytypes import I64, U32, U64
from oncegate.index.table.arrays import Slots
from oncegate.index.table.jit import compiled
from oncegate.index.table.probe import HALF, READ_AHEAD, begin_of, find, home_of, row_at, segment_of, touch

# Ids collected for each segment: 64 MiB over 256 of them. Fewer, and each comes back from memory too often.
IDS_PER_SEGMENT = 16_384
# With which it begins: a start of a thousand small ledgers would clear 64 MiB for each. Sixteen times as many whenever
# a segment's were too few.
IDS_PER_SEGMENT_FIRST = 64
_GROWTH = 16
# Below it another thread costs more than it takes over.
ALONE = 65_536


def collect(ids: U64, first: int, tag_mask: np.uint64, row: int, collected: U64, counts: I64) -> Any:
    """Adds the ids from `first` on to what is collected of their segments, as slots of `row`, until one has no room.

    Returns the first that was not added. `collected`: shape (segments, room, 2); `counts`: how many there are of each.
    """
    for i in range(first, ids.shape[0]):
        tag = ids[i, 0] & tag_mask
        segment = segment_of(tag, counts.size)
        at = counts[segment]
        if at == collected.shape[1]:
            return i
        collected[segment, at, 0] = tag
        collected[segment, at, 1] = home_of(ids, i) << HALF | np.uint64(row + 1)
        counts[segment] = at + 1
    return ids.shape[0]


def insert(slots: Slots, begin: int, end: int, collected: U64, counts: I64, lost: U32) -> tuple[int, int]:
    """Inserts what is collected of the segments from `begin` to `end` into them, in its order; there must be room.

    Returns how many slots are new, and how many named a row before; those rows get into `lost`, as often as each lost.
    """
    words, digests, losses, new = slots.words, slots.digests, 0, 0
    for segment in range(begin, end):
        base, capacity, last = slots.base[segment], slots.capacity[segment], counts[segment] - 1
        for i in range(last + 1):
            touch(words, base + begin_of(collected[segment, min(i + READ_AHEAD, last), 1] >> HALF, capacity))
            tag, word = collected[segment, i, 0], collected[segment, i, 1]
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
            if digests.size > 0:
                digests[slot] = 0
    return new, losses


class BulkKernels(NamedTuple):
    """Holds both loops; the compiled and the plain set have the same calls, so that tests run on either."""

    collect: Callable[..., int]
    insert: Callable[..., tuple[int, int]]


PLAIN = BulkKernels(collect, insert)
COMPILED = BulkKernels(*(compiled(kernel) for kernel in PLAIN))


class Segments(Protocol):
    """Names what an insert needs of a `Table`; imported, that would count as compiled into the kernels here."""

    slots: Slots
    tag_mask: np.uint64

    def sweep_for(self, more: I64) -> None:
        """Does what `Table.sweep_for` does."""
        ...

    def make_room_within(self, begin: int, end: int, more: I64) -> None:
        """Does what `Table.make_room_within` does."""
        ...


class Inserted(NamedTuple):
    """Says what an insert did: how many slots are `new`; the rows that lost one, each as often as it did, in `lost`."""

    new: int
    lost: U32


class BulkInsert:
    """Collects ids for a table, `room` of each segment at most, then inserts them; those of one id stay in order."""

    def __init__(self, table: Segments, kernels: BulkKernels, room: int = IDS_PER_SEGMENT) -> None:
        self._table = table
        self._kernels = kernels
        self._counts = np.zeros(len(table.slots.base), np.int64)
        self._room_max = room
        self._slots = self._room_for(min(room, IDS_PER_SEGMENT_FIRST))
        self.ids = 0

    def _room_for(self, ids_per_segment: int) -> U64:
        return np.empty((len(self._counts), ids_per_segment, 2), np.uint64)

    def add(self, ids: U64, row: int, first: int = 0) -> int:
        """Collects ids, shape (n, 2), from `first` on, as slots of `row`.

        Returns the first for which there is no room, n where there is for all.
        """
        added = int(self._kernels.collect(ids, first, self._table.tag_mask, row, self._slots, self._counts))
        self.ids += added - first
        return added

    def insert(self) -> Inserted:
        """Inserts everything collected. Raises Overloaded: a segment is as large as segments get."""
        segments = len(self._counts)
        self._table.sweep_for(self._counts)
        if self.ids < ALONE:
            parts = [self._insert(0, segments)]
        else:
            with ThreadPoolExecutor(1) as other:
                later = other.submit(self._insert, segments // 2, segments)
                parts = [self._insert(0, segments // 2), later.result()]
        room = self._slots.shape[1]
        if room < self._room_max and int(self._counts.max()) == room:
            self._slots = self._room_for(min(self._room_max, _GROWTH * room))
        self._counts[:], self.ids = 0, 0
        return Inserted(sum(part.new for part in parts), np.concatenate([part.lost for part in parts]))

    def _insert(self, begin: int, end: int) -> Inserted:
        lost = np.empty(int(self._counts[begin:end].sum()), np.uint32)
        self._table.make_room_within(begin, end, self._counts)
        counts: Any = self._kernels.insert(self._table.slots, begin, end, self._slots, self._counts, lost)
        return Inserted(int(counts[0]), lost[: counts[1]])
