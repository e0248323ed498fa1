"""Lets small done claims share a row: one of one id then costs 16 bytes of slots, and no row of 172 bytes for ever.

From two leases after its settling on, nothing is asked of a done claim but that its ids are done, and since when. So
the slots of such small ones are given to one row for each bucket of time, a bounded part of the table at a request. The
row has the latest of their times: nothing is forgotten early. Answers stay as they are; `explain` can no longer say
whose claim it was. What was written to a topic, has digests of payloads or a result, or
goes with a batch keeps its row.
"""

import numpy as np

from oncegate.index.claims.expiry import BUCKET_BITS, ExpiryBuckets
from oncegate.index.table.arrays import SharedRows, Small
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC, Grant
from oncegate.index.table.kernels import Kernels
from oncegate.index.table.rows import DONE, Rows
from oncegate.index.table.table import Table

# A row of 172 bytes for as many ids costs a tenth of what their slots do.
IDS_MOST = 64
# Looked at at one request: some 10 µs while rows are at hand, 100 where each is fetched from memory.
SLOTS_AT_ONCE = 1_024
# A round begins when rows are so many, twice those that the last one left, and more than a 64th of the ids: two bytes
# an id, for going over the whole table once.
ROWS_MIN = 65_536
IDS_PER_ROW = 64
# Or when as many as those are left, and this many buckets have passed: what was too young then is not any more.
BUCKETS_BETWEEN = 32
# Buckets whose lists are cleaned at one request, after a round.
_CLEANED_AT_ONCE = 1


class RowSharing:
    """Moves small claims that were done long ago into shared rows, a few slots at a time.

    `rounds`: how often the whole table was gone over. `paused`: nothing may change now, for a snapshot is made.
    """

    def __init__(
        self, rows: Rows, table: Table, settled: ExpiryBuckets, kernels: Kernels, rows_min: int = ROWS_MIN
    ) -> None:
        self._rows = rows
        self._table = table
        self._settled = settled
        self._kernels = kernels
        self._rows_min = rows_min
        self._left = self._begun = 0
        self._pools: SharedRows | None = None
        self._segment = self._done = 0
        self._to_clean: list[int] = []
        self.rounds = 0
        self.paused = False

    def step(self, ids: int, wall_ms: int) -> None:
        """Does a bounded part of what is due. `ids`: how many are held; `wall_ms`: the latest time in any entry."""
        if self.paused:
            return
        if self._pools is not None:
            self._go_on(self._pools)
        elif self._to_clean:
            for bucket in self._to_clean[:_CLEANED_AT_ONCE]:
                self._settled.clean(bucket)
            del self._to_clean[:_CLEANED_AT_ONCE]
        elif self._rows.in_use > max(self._rows_min, ids // IDS_PER_ROW) and (
            self._rows.in_use > 2 * self._left or wall_ms >> BUCKET_BITS >= self._begun + BUCKETS_BETWEEN
        ):
            self._begin(wall_ms)

    def _begin(self, wall_ms: int) -> None:
        """Begins a round: a shared row for each bucket that has several; as many as there is ample room for."""
        self._begun = wall_ms >> BUCKET_BITS
        buckets = self._settled.unclean(wall_ms >> BUCKET_BITS)[: self._rows.free // 8]
        if not buckets:
            self._left = self._rows.in_use
            return
        rows = np.array([self._shared(bucket) for bucket in buckets], np.int64)
        self._pools = SharedRows(np.array(buckets, np.int64), rows, BUCKET_BITS)
        self._segment = self._done = 0

    def _shared(self, bucket: int) -> int:
        """Returns the bucket's shared row, pinned as long as the round goes on, so that it is nobody else's
        meanwhile."""
        rows, holders = self._rows, self._rows.holders
        done = self._settled.done(bucket)
        is_free = (holders.remembered[done] == 0) & (holders.pins[done] == 0) & ~rows.claim[done].any(axis=1)
        if is_free.any():
            rows.pin([int(done[is_free][0])])
            return int(done[is_free][0])
        none = np.empty((0, 2), np.uint64)
        grant = Grant(NO_CLAIM, NO_CLAIM, 0, NO_CLAIM, DONE, 0, bucket << BUCKET_BITS, none, none)
        row = rows.take(0, grant, False, 0, 0)
        holders = rows.holders
        holders.remembered[row] = 0
        self._settled.add(row)
        return row

    def _go_on(self, pools: SharedRows) -> None:
        rows, slots = self._rows, self._table.slots
        base, capacity = int(slots.base[self._segment]), int(slots.capacity[self._segment])
        end = min(self._done + SLOTS_AT_ONCE, capacity)
        small = Small(rows.topic, rows.beside, rows.scoped, NO_TOPIC, IDS_MOST)
        freed = np.empty(SLOTS_AT_ONCE, np.uint32)
        free, _ = self._kernels.pool(
            slots, base + self._done, base + end, rows.holders, rows.wall_ms, small, self._live(pools), freed
        )
        rows.give_back(freed[:free])
        self._done = end
        if end >= capacity:
            self._segment, self._done = self._segment + 1, 0
        if self._segment == len(slots.base):
            self._end(pools)

    def _live(self, pools: SharedRows) -> SharedRows:
        """Returns those that have not retired meanwhile: what is older retires with them."""
        live = self._rows.holders.state[pools.rows] == DONE
        return pools if live.all() else SharedRows(pools.buckets[live], pools.rows[live], pools.bits)

    def _end(self, pools: SharedRows) -> None:
        self._rows.unpin(pools.rows.tolist())
        self._to_clean, self._pools = pools.buckets.tolist(), None
        self._left = self._rows.in_use
        self.rounds += 1

    def warm_up(self) -> None:
        """Compiles the kernel, or loads it from numba's cache."""
        none = np.empty(0, np.int64)
        self._pools = SharedRows(none, none, BUCKET_BITS)
        self._go_on(self._pools)
