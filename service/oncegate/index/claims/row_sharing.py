"""Moves the ids of small done claims to shared rows, and sorts rows by completion time, so that expiry checks few rows.

A done claim of one id then costs 16 bytes of slots and no row of 172 bytes. Two leases after its completion, only two
facts of a done claim are used: that its ids are done, and since when. The slots of small claims are therefore moved to
one row per time bucket, a bounded part of the table at each request. The shared row has the latest of their times, so
nothing is forgotten early. Answers do not change, except that `explain` can no longer name the claim. A claim that was
written to a topic, has payload digests or a result, or belongs to a batch scope keeps its row.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from oncegate.arraytypes import U32
from oncegate.index.table.arrays import TAKEN, SharedRows, Small
from oncegate.index.table.grants import NO_CLAIM, NO_TOPIC, Grant
from oncegate.index.table.kernels import Kernels
from oncegate.index.table.rows import DONE, Rows
from oncegate.index.table.table import Table

# A bucket is 2^13 ms: finding the oldest id examines the rows of some eight seconds.
BUCKET_BITS = 13


class ExpiryBuckets:
    """Lists rows by completion time on the ledger's clock. Rows that changed since are still listed; readers must
    check.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []
        # Buckets that got rows since they were last cleaned.
        self._unclean: set[int] = set()

    def add(self, row: int) -> None:
        """Lists a row that was done or taken at its `wall_ms`."""
        self._bucket(int(self._rows.wall_ms[row]) >> BUCKET_BITS).append(row)

    def add_all(self, rows: U32) -> None:
        """Lists many rows, uint32 (n,)."""
        if not len(rows):
            return
        buckets = self._rows.wall_ms[rows] >> BUCKET_BITS
        order = np.argsort(buckets, kind="stable")
        numbers, first = np.unique(buckets[order], return_index=True)
        for bucket, of in zip(numbers.tolist(), np.split(rows[order], first[1:]), strict=True):
            self._bucket(bucket).frombytes(of.tobytes())

    def take_before(self, wall_ms: int) -> U32:
        """Removes all rows that may have been listed with a time before `wall_ms`, and returns them."""
        last = wall_ms >> BUCKET_BITS
        whole = bisect_left(self._order, last)
        listings = [np.frombuffer(self._buckets.pop(bucket), np.uint32) for bucket in self._order[:whole]]
        del self._order[:whole]
        if last in self._buckets:
            listings.append(np.array(self._buckets[last], np.uint32))
        return np.concatenate([np.empty(0, np.uint32), *listings])

    def unclean(self, before_bucket: int) -> list[int]:
        """Returns, in ascending order, the older buckets with several rows that have received rows since their last
        cleaning.
        """
        self._unclean &= self._buckets.keys()
        return sorted(one for one in self._unclean if one < before_bucket and len(self._buckets[one]) > 1)

    def done(self, bucket: int) -> U32:
        """Returns the done rows of this bucket, each once."""
        rows = self._rows
        listed = np.unique(np.frombuffer(self._buckets[bucket], np.uint32))
        done: U32 = listed[(rows.holders.state[listed] == DONE) & (rows.wall_ms[listed] >> BUCKET_BITS == bucket)]
        return done

    def clean(self, bucket: int) -> None:
        """Removes duplicates from a bucket, and rows that are no longer done or taken in it."""
        if bucket not in self._buckets:
            return
        rows, holders = self._rows, self._rows.holders
        listed = np.unique(np.frombuffer(self._buckets[bucket], np.uint32))
        is_settled = (holders.state[listed] == DONE) | (holders.state[listed] == TAKEN)
        # A pinned row may be done or taken again after an undo.
        remaining = listed[(is_settled | (holders.pins[listed] > 0)) & (rows.wall_ms[listed] >> BUCKET_BITS == bucket)]
        self._buckets[bucket] = array("I", remaining.tobytes())
        if not holders.remembered[remaining].any() and not holders.pins[remaining].any():
            self._unclean.discard(bucket)

    def listed(self) -> Iterator[U32]:
        """Yields all listed rows, a bucket at a time, the oldest first. A row may occur in two buckets."""
        for bucket in self._order:
            yield np.array(self._buckets[bucket], np.uint32)

    def oldest_wall_ms(self) -> int | None:
        """Returns the completion time of the ids that retire next; None if there are none."""
        rows, holders, index = self._rows, self._rows.holders, 0
        while index < len(self._order):
            bucket = self._order[index]
            listed = np.array(self._buckets[bucket], np.uint32)
            listed = listed[(holders.state[listed] == DONE) | (holders.state[listed] == TAKEN)]
            listed = listed[rows.wall_ms[listed] >> BUCKET_BITS == bucket]
            times = rows.wall_ms[listed[holders.named[listed] > 0]]
            if len(times):
                return int(times.min())
            if len(listed):
                index += 1
            else:
                del self._order[index], self._buckets[bucket]
        return None

    def _bucket(self, bucket: int) -> "array[int]":
        self._unclean.add(bucket)
        if bucket not in self._buckets:
            self._buckets[bucket] = array("I")
            insort(self._order, bucket)
        return self._buckets[bucket]


# A row of 172 bytes for this many ids costs a tenth of their slots.
IDS_MOST = 64
# Slots examined per request: some 10 µs if their rows are cached, 100 µs if each is fetched from memory.
SLOTS_AT_ONCE = 1_024
# A round begins when there are this many rows, twice as many as the last round left, and more than a 64th of the ids:
# two bytes per id, for one pass over the whole table.
ROWS_MIN = 65_536
IDS_PER_ROW = 64
# It also begins when as many rows as the last round left are in use and this many buckets have passed: rows that were
# too young then qualify.
BUCKETS_BETWEEN = 32
# Buckets cleaned per request after a round.
_CLEANED_AT_ONCE = 1


class RowSharing:
    """Moves the ids of small claims completed long ago to shared rows, a few slots at a time.

    rounds: number of passes over the whole table.
    paused: a snapshot is being made, so nothing may change.
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
        """Does a bounded part of the due work. ids: number held; wall_ms: the latest time in any entry."""
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
        """Begins a round: allocates one shared row for each bucket with several rows, while enough rows are free."""
        self._begun = wall_ms >> BUCKET_BITS
        buckets = self._settled.unclean(wall_ms >> BUCKET_BITS)[: self._rows.free // 8]
        if not buckets:
            self._left = self._rows.in_use
            return
        rows = np.array([self._shared(bucket) for bucket in buckets], np.int64)
        self._pools = SharedRows(np.array(buckets, np.int64), rows, BUCKET_BITS)
        self._segment = self._done = 0

    def _shared(self, bucket: int) -> int:
        """Returns the bucket's shared row, pinned until the round ends so that it is not reused."""
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
        """Returns the shared rows that have not retired in the meantime; older claims retire with them."""
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
