"""Many claims' ids put into the table at once, segment by segment: how a start takes them in.

One claim after the other, each id waits for a line of memory anywhere in the table. Gathered by segment first, those of
one segment find it in the processor's cache, and no segment touches another, so two threads have half of them each.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from oncegate.arraytypes import U32, U64
from oncegate.index.table.bulk_insert import Kernels
from oncegate.index.table.table import Table

# Ids gathered for each segment: 64 MiB over 256 of them. Fewer, and each comes back from memory too often.
GATHERED = 16_384
# Below it another thread costs more than it takes over.
ALONE = 65_536


class Spread(NamedTuple):
    """`new`: how many slots are; `lost`: the rows that slots named before, each as often as it lost one."""

    new: int
    lost: U32


class Gathered:
    """Ids on their way into a table, `room` of each segment at most; those of one id stay in their order."""

    def __init__(self, table: Table, kernels: Kernels, room: int = GATHERED) -> None:
        self._table = table
        self._kernels = kernels
        self._counts = np.zeros(len(table.slots.base), np.int64)
        self._slots: U64 = np.empty((len(self._counts), room, 2), np.uint64)
        self.ids = 0

    def add(self, ids: U64, row: int, first: int = 0) -> int:
        """Take ids in, shape (n, 2), from `first` on, as slots of `row`; the first for which there is no room, n where
        there is for all."""
        added = int(self._kernels.gather(ids, first, self._table.tag_mask, row, self._slots, self._counts))
        self.ids += added - first
        return added

    def spread(self) -> Spread:
        """Put everything into the table. Raises Overloaded: a segment is as large as segments get."""
        segments = len(self._counts)
        self._table.sweep_for(self._counts)
        if self.ids < ALONE:
            parts = [self._spread(0, segments)]
        else:
            with ThreadPoolExecutor(1) as other:
                later = other.submit(self._spread, segments // 2, segments)
                parts = [self._spread(0, segments // 2), later.result()]
        self._counts[:], self.ids = 0, 0
        return Spread(sum(part.new for part in parts), np.concatenate([part.lost for part in parts]))

    def _spread(self, begin: int, end: int) -> Spread:
        lost = np.empty(int(self._counts[begin:end].sum()), np.uint32)
        self._table.make_room_within(begin, end, self._counts)
        found: Any = self._kernels.spread(self._table.slots, begin, end, self._slots, self._counts, lost)
        return Spread(int(found[0]), lost[: found[1]])
