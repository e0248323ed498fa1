"""Records which rows' ids were done or taken when: what retires is found without looking at all rows."""

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np

from oncegate.arraytypes import U32
from oncegate.index.table.arrays import TAKEN
from oncegate.index.table.rows import DONE, Rows

# A bucket of 2^13 ms: some eight seconds of rows are looked at to find the oldest.
BUCKET_BITS = 13


class ExpiryBuckets:
    """Lists rows by time on the ledger's clock; what has changed since it was added still is: whoever looks checks."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []
        # Buckets that rows were added to since they were last cleaned.
        self._unclean: set[int] = set()

    def add(self, row: int) -> None:
        """Lists a row that is done or taken, since its `wall_ms`."""
        self._bucket(int(self._rows.wall_ms[row]) >> BUCKET_BITS).append(row)

    def add_all(self, rows: U32) -> None:
        """Lists many rows, uint32 (n,), as `add` does one."""
        if not len(rows):
            return
        buckets = self._rows.wall_ms[rows] >> BUCKET_BITS
        order = np.argsort(buckets, kind="stable")
        numbers, first = np.unique(buckets[order], return_index=True)
        for bucket, of in zip(numbers.tolist(), np.split(rows[order], first[1:]), strict=True):
            self._bucket(bucket).frombytes(of.tobytes())

    def take_before(self, wall_ms: int) -> U32:
        """Takes all rows off the list that may have been added with a time before `wall_ms`, and returns them."""
        last = wall_ms >> BUCKET_BITS
        whole = bisect_left(self._order, last)
        listings = [np.frombuffer(self._buckets.pop(bucket), np.uint32) for bucket in self._order[:whole]]
        del self._order[:whole]
        if last in self._buckets:
            listings.append(np.array(self._buckets[last], np.uint32))
        return np.concatenate([np.empty(0, np.uint32), *listings])

    def unclean(self, before_bucket: int) -> list[int]:
        """Returns the buckets below this one, of several rows, that were added to since cleaned; ascending."""
        self._unclean &= self._buckets.keys()
        return sorted(one for one in self._unclean if one < before_bucket and len(self._buckets[one]) > 1)

    def done(self, bucket: int) -> U32:
        """Returns the rows of this bucket that are done, each once."""
        rows = self._rows
        listed = np.unique(np.frombuffer(self._buckets[bucket], np.uint32))
        done: U32 = listed[(rows.holders.state[listed] == DONE) & (rows.wall_ms[listed] >> BUCKET_BITS == bucket)]
        return done

    def clean(self, bucket: int) -> None:
        """Strikes off what is not done or taken in this bucket any more, and what stands in it twice."""
        if bucket not in self._buckets:
            return
        rows, holders = self._rows, self._rows.holders
        listed = np.unique(np.frombuffer(self._buckets[bucket], np.uint32))
        is_settled = (holders.state[listed] == DONE) | (holders.state[listed] == TAKEN)
        # What may yet be taken back is done or taken again then.
        remaining = listed[(is_settled | (holders.pins[listed] > 0)) & (rows.wall_ms[listed] >> BUCKET_BITS == bucket)]
        self._buckets[bucket] = array("I", remaining.tobytes())
        if not holders.remembered[remaining].any() and not holders.pins[remaining].any():
            self._unclean.discard(bucket)

    def listed(self) -> Iterator[U32]:
        """Goes through all rows on the list, a bucket at a time, the oldest first; some may stand in two."""
        for bucket in self._order:
            yield np.array(self._buckets[bucket], np.uint32)

    def oldest_wall_ms(self) -> int | None:
        """Returns when the ids were done or taken that will retire first; None when there are none."""
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
