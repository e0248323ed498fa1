"""Inserts the ids of many claims into the table at once, segment by segment, at start-up.

Inserted claim by claim, each id would wait for a random line of memory. Collected by segment first, the ids of one
segment find it in the processor's cache. Segments are independent, so two threads insert half of them each. The rules
of `kernels` apply to the loops here too.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np

from oncegate.arraytypes import I64, U32, U64
from oncegate.index.table.arrays import Slots
from oncegate.index.table.jit import compiled
from oncegate.index.table.probe import HALF, READ_AHEAD, begin_of, find, home_of, row_at, segment_of, touch

# Ids collected per segment: 64 MiB over 256 segments. With fewer, each segment is read from memory too often.
IDS_PER_SEGMENT = 16_384
# Initial number: a start of a thousand small ledgers would otherwise clear 64 MiB for each. Multiplied by sixteen when
# a segment runs out.
IDS_PER_SEGMENT_FIRST = 64
_GROWTH = 16
# Below this number of ids a second thread costs more than it saves.
ALONE = 65_536


def collect(ids: U64, first: int, tag_mask: np.uint64, row: int, collected: U64, counts: I64) -> Any:
    """Collects ids, starting at index `first`, by segment as slots of `row`, until a segment's buffer is full.

    Returns the index of the first id that was not added. collected: shape (segments, room, 2); counts: number per
    segment.
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
    """Inserts the collected ids of the segments from `begin` to `end`, in order; the segments must have free slots.

    Returns the number of new slots, and of slots that named a row before. Those rows are written to `lost`, once per
    slot.
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
    """The loops for bulk inserts; both sets have the same signatures, so that tests run on either."""

    collect: Callable[..., int]
    insert: Callable[..., tuple[int, int]]


PLAIN = BulkKernels(collect, insert)
COMPILED = BulkKernels(*(compiled(kernel) for kernel in PLAIN))


class Segments(Protocol):
    """The interface of `Table` that a bulk insert needs. Importing `Table` would make it a source of the
    kernels here.
    """

    slots: Slots
    tag_mask: np.uint64

    def sweep_for(self, more: I64) -> None:
        """Rehashes segments to remove dead slots, as `Table.sweep_for` does."""
        ...

    def make_room_within(self, begin: int, end: int, more: I64) -> None:
        """Enlarges the segments from `begin` to `end`, as `Table.make_room_within` does."""
        ...


class Inserted(NamedTuple):
    """The result of an insert. new: number of new slots; lost: the row of each slot that changed hands, once per
    slot."""

    new: int
    lost: U32


class BulkInsert:
    """Collects at most `room` ids per segment for a table, then inserts them. Entries of one id stay in order."""

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
        """Collects ids, shape (n, 2), starting at index `first`, as slots of `row`.

        Returns the index of the first id without room; n if all had room.
        """
        added = int(self._kernels.collect(ids, first, self._table.tag_mask, row, self._slots, self._counts))
        self.ids += added - first
        return added

    def insert(self) -> Inserted:
        """Inserts all collected ids. Raises Overloaded if a segment has its maximum size."""
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
