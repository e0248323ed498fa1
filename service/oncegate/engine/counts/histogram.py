"""Counts values by buckets, as Prometheus' histograms do: how many were at most so large, and their sum."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from oncegate.arraytypes import I64
from oncegate.ports import Clock
from oncegate.ports.tracing import current_span


@dataclass(frozen=True, slots=True)
class Exemplar:
    """Names the trace of one observed value, of a request that is recorded; at which time, in ms since 1970."""

    trace_id: str
    span_id: str
    value: int
    wall_ms: int


class Histogram:
    """Counts whole numbers by the first of `bounds`, rising, that is not below them; and those above all bounds.

    exemplars: by bucket, the newest value whose request was traced; empty where none is.
    """

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        # A list: one observation costs less than with an array.
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: int) -> None:
        """Counts one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_since(self, began_ms: int, clock: Clock) -> None:
        """Counts the milliseconds since `began_ms`, monotonic; keeps whose they were where that is traced."""
        value = clock.monotonic_ms() - began_ms
        at = bisect_left(self.bounds, value)
        self.counts[at] += 1
        self.total += value
        if (span := current_span()) is not None:
            self.exemplars[at] = Exemplar(*span.ids, value, clock.wall_ms())

    def tally(self, values: I64) -> "Histogram":
        """Counts values, int64 (n,), in a histogram of the same bounds, to be added when they are to count."""
        tallied = Histogram(self.bounds)
        at = np.searchsorted(self.bounds, values)
        tallied.counts = np.bincount(at, minlength=len(self.counts)).tolist()
        tallied.total = int(values.sum())
        return tallied

    def add(self, other: "Histogram") -> None:
        """Adds what another histogram of the same bounds has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.exemplars |= other.exemplars

    def plus(self, other: "Histogram") -> "Histogram":
        """Returns what both have counted, of the same bounds."""
        both = self.copy()
        both.add(other)
        return both

    def copy(self) -> "Histogram":
        """Returns what it has counted so far, which does not change any more."""
        copied = Histogram(self.bounds)
        copied.counts, copied.total, copied.exemplars = list(self.counts), self.total, dict(self.exemplars)
        return copied

    def cumulative(self) -> list[int]:
        """Tells how many values were at most each bound, and last how many there were."""
        return list(accumulate(self.counts))
