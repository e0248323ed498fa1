"""The slot table: 16 bytes an id, from a fingerprint to the row that holds it.

A dead slot (its row was released, or its claim taken back) counts as occupied until the slots are moved, and only its
own id takes it over before. Moving is how the table grows and how it is swept; no answer changes by it.
"""

import numpy as np

from oncegate.index.kernels import NO_ROW, U32, U64, Kernels, Slots, find
from oncegate.index.rows import Rows

# Occupied slots, dead ones included, per capacity. Above it the chains of linear probing grow quickly.
LOAD_MAX = 0.7
# What a move leaves occupied at most, so that the next one is not soon.
LOAD_AFTER_MOVE = 0.525


class Table:
    """`used`: occupied slots; `dead`: those of them that a move may drop once nothing pins their rows."""

    def __init__(self, rows: Rows, kernels: Kernels, tag_bits: int, capacity: int) -> None:
        assert capacity & (capacity - 1) == 0, "capacities are powers of two"
        self._rows = rows
        self._kernels = kernels
        self.tag_mask = np.uint64((1 << tag_bits) - 1)
        self.slots = _empty(capacity)
        self.used = 0
        self.dead = 0

    @property
    def capacity(self) -> int:
        return len(self.slots.row)

    def has_room(self, ids: int) -> bool:
        return self.used + ids <= LOAD_MAX * self.capacity

    def make_room(self, ids: int) -> None:
        """Move, to twice the size as often as it takes; not at all when there is room for `ids` more."""
        while not self.has_room(ids):
            capacity = self.capacity
            while self.used - self.dead + ids > LOAD_AFTER_MOVE * capacity:
                capacity *= 2
            before = (self.capacity, self.used)
            self._move(capacity)
            # Everything dead is pinned by changes that may yet be taken back: then only size helps.
            if (self.capacity, self.used) == before:
                self._move(2 * capacity)

    def sweep(self) -> None:
        """Drop every dead slot that nothing pins."""
        if self.dead:
            self._move(self.capacity)

    def put(self, ids: U64, row: int) -> tuple[U32, int]:
        """Let the slots of `ids`, shape (n, 2), name `row`; what each named before, and how many ids were absent."""
        assert self.has_room(len(ids)), "room is made before"
        previous = np.empty(len(ids), np.uint32)
        new, revived = self._kernels.upsert(self.slots, self._rows.holders, ids, self.tag_mask, row, previous)
        self.used, self.dead = self.used + int(new), self.dead - int(revived)
        return previous, int(new) + int(revived)

    def put_back(self, ids: U64, row: int, previous: U32, was_absent: int) -> None:
        """Undo `put`. Slots that were new stay, dead: emptying one would cut the chains that run through it."""
        self._kernels.restore(self.slots, self._rows.holders, ids, self.tag_mask, row, previous)
        self.dead += was_absent

    def row_of(self, fingerprint: U64) -> int | None:
        """The row that the slot of one id names, dead or alive."""
        tag, place = fingerprint[0] & self.tag_mask, np.uint32(fingerprint[1] & np.uint64(0xFFFF_FFFF))
        slot = find(self.slots, tag, place)
        return int(self.slots.row[slot]) if slot >= 0 else None

    def _move(self, capacity: int) -> None:
        new = _empty(capacity)
        used, dead = self._kernels.move(self.slots, new, self._rows.holders)
        self.slots, self.used, self.dead = new, int(used), int(dead)


def _empty(capacity: int) -> Slots:
    return Slots(
        np.zeros(capacity, np.uint64),
        np.zeros(capacity, np.uint32),
        np.full(capacity, NO_ROW, np.uint32),
    )
