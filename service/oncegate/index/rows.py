"""The rows: one a claim and kind of grant (fresh, taken over), as arrays.

A row is a place in this process's memory, reused and never shown; the ledger's position is what lasts. It is handed
out again only when no slot names it (`slots` is 0, as a sweep left it), nobody can ask for its claim any more
(`kept` is false) and no change that names it may still be taken back (`pins` is 0).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oncegate.core.decisions import ClaimState
from oncegate.index.grants import Grant
from oncegate.index.kernels import I64, TAKEN, U32, U64, Holders

# As plain integers: an enum's members are slow to reach, and these are reached for every claim.
OPEN, DONE, RELEASED, UNKNOWN = (int(state) for state in ClaimState)
LIVE = (OPEN, DONE, TAKEN)
CAPACITY_MIN = 64
# A claim takes two rows at most: one for fresh ids, one for those it takes over.
ROWS_PER_CLAIM = 2


def words(raw: bytes) -> U64:
    """16 bytes as the two 64-bit words that arrays hold."""
    return np.frombuffer(raw, np.uint64)


_COLUMNS = (
    *("claim", "lease_ms", "wall_ms", "ended_ms", "granted", "topic", "partition", "first_offset"),
    *("kept", "used"),
)


class Rows:
    """`holders` is what the kernels read too; the rest is for people and for settling.

    `ended_ms`: when the claim was settled, on the clock of `now_ms`. `granted`: how many ids the row was made for.
    """

    def __init__(self, row_bits: int) -> None:
        self.limit = (1 << row_bits) - 1
        self.capacity = 0
        self.holders = Holders(
            token=np.zeros((0, 2), np.uint64),
            call=np.zeros(0, np.uint32),
            state=np.zeros(0, np.uint8),
            takeover=np.zeros(0, np.uint8),
            lease_until_ms=np.zeros(0, np.int64),
            position=np.zeros(0, np.int64),
            named=np.zeros(0, np.int64),
            slots=np.zeros(0, np.int64),
            pins=np.zeros(0, np.int64),
        )
        self.claim: U64 = np.zeros((0, 2), np.uint64)
        self.lease_ms: I64 = np.zeros(0, np.int64)
        self.wall_ms: I64 = np.zeros(0, np.int64)
        self.ended_ms: I64 = np.zeros(0, np.int64)
        self.granted: I64 = np.zeros(0, np.int64)
        self.topic: U32 = np.zeros(0, np.uint32)
        self.partition: U32 = np.zeros(0, np.uint32)
        self.first_offset: I64 = np.zeros(0, np.int64)
        self.kept: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.used: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._free: list[int] = []
        self.grow()

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def can_grow(self) -> bool:
        return self.capacity < self.limit

    def grow(self) -> None:
        """Double, up to what the width of a row allows. Rows keep their numbers."""
        before, self.capacity = self.capacity, min(max(2 * self.capacity, CAPACITY_MIN), self.limit)
        more = self.capacity - before
        self.holders = Holders(*(_longer(array, more) for array in self.holders))
        for name in _COLUMNS:
            setattr(self, name, _longer(getattr(self, name), more))
        self.holders.state[before:] = UNKNOWN
        self._free.extend(range(self.capacity - 1, before - 1, -1))

    def take(self, position: int, grant: Grant, takeover: bool, granted: int, now_ms: int) -> int:
        """A free row, filled in for `granted` ids of the grant; nothing names it yet, and it is pinned once."""
        row, holders = self._free.pop(), self.holders
        self.used[row], self.kept[row] = True, grant.known
        self.claim[row], holders.token[row], holders.call[row] = words(grant.claim), words(grant.token), grant.call
        holders.state[row], holders.takeover[row], holders.position[row] = grant.state, takeover, position
        self.lease_ms[row], holders.lease_until_ms[row] = grant.lease_ms, now_ms + grant.lease_ms
        self.wall_ms[row], self.granted[row] = grant.wall_ms, granted
        self.ended_ms[row] = 0 if grant.state == OPEN else now_ms
        self.topic[row], self.partition[row], self.first_offset[row] = grant.topic, grant.partition, grant.first_offset
        holders.named[row] = holders.slots[row] = 0
        holders.pins[row] = 1
        return row

    def void(self, row: int) -> None:
        """Its claim never was: whatever slots name it are dead, and nothing rests on it."""
        self.holders.state[row], self.holders.position[row] = UNKNOWN, 0
        self.kept[row] = False

    def due(self, before_wall_ms: int) -> NDArray[np.intp]:
        """The rows whose ids were done or taken before a time on the ledger's clock."""
        settled = (self.holders.state == DONE) | (self.holders.state == TAKEN)
        return np.flatnonzero(self.used & settled & (self.wall_ms < before_wall_ms))

    def oldest_wall_ms(self) -> int | None:
        """When the ids were done or taken that will retire first; None when there are none."""
        settled = self.used & ((self.holders.state == DONE) | (self.holders.state == TAKEN)) & (self.holders.named > 0)
        return int(self.wall_ms[settled].min()) if settled.any() else None

    def pin(self, rows: Sequence[int] | NDArray[np.intp], by: int) -> None:
        """By 1 while a change that names these rows, each once, may be taken back; by -1 when it no longer may."""
        pins, which = self.holders.pins, np.asarray(rows, np.intp)
        pins[which] += by
        assert (pins[which] >= 0).all(), "a change is settled or undone once"

    def reclaim(self) -> None:
        """After a sweep: free every row that nothing names and nobody can ask for."""
        idle = self.used & ~self.kept & (self.holders.slots == 0) & (self.holders.pins == 0)
        self._free.extend(np.flatnonzero(idle)[::-1].tolist())
        self.holders.state[idle] = UNKNOWN
        self.used[idle] = False

    def remembered_until_ms(self) -> I64:
        """Per row, when the answer to a lost reply may be forgotten: two leases past the settling, or past the lease
        of a claim that nothing names; far in the future where the claim still holds ids."""
        holders = self.holders
        live = (holders.state == OPEN) & (holders.named > 0)
        end = np.where(holders.state == OPEN, holders.lease_until_ms, self.ended_ms)
        return np.where(live, np.iinfo(np.int64).max, end + 2 * self.lease_ms)

    def remembered(self, rows: Iterable[int], now_ms: int) -> bool:
        """The same for all rows of one claim, at `now_ms`."""
        holders, until_ms = self.holders, 0
        for row in rows:
            if holders.state[row] == OPEN and holders.named[row]:
                return True
            end_ms = holders.lease_until_ms[row] if holders.state[row] == OPEN else self.ended_ms[row]
            until_ms = max(until_ms, int(end_ms) + 2 * int(self.lease_ms[row]))
        return now_ms < until_ms

    def reset_leases(self, now_ms: int) -> None:
        """A full lease for every open row; what is settled counts as settled now."""
        self.holders.lease_until_ms[self.used] = now_ms + self.lease_ms[self.used]
        self.ended_ms[self.used] = now_ms

    def open_total(self, rows: Sequence[int]) -> int:
        """How many ids the open ones of a claim's rows still hold."""
        holders = self.holders
        return sum(int(holders.named[row]) for row in rows if holders.state[row] == OPEN)


def _longer(array: NDArray[Any], more: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])
