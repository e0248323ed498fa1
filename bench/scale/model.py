"""Estimates the cost of a billion ids from the windows of a run, by a model with two prices; reports how well it fits.

A straight line through the windows' costs would be wrong: the number of ids in memory is bounded, so the cost of an id
levels off. The number of times that an id is rewritten does grow, by merges of at most four runs: with r runs, as the
r-th root of the number of rounds (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD 2017, 3). Here the merge policy
itself counts it. Hence:

    seconds = each * ids + byte * bytes written

The two prices are fitted by least squares over the windows in which ids left memory; each window records the bytes
written. The model holds while the runs in which old ids are looked up fit into the system's page cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from oncegate.engine.limits import Limits
from oncegate.engine.maintenance.compaction import to_merge

RECORD_BYTES = 16
F64 = NDArray[np.float64]


class Measured(Protocol):
    """The parts of a window that the model needs."""

    @property
    def window_ids(self) -> int:
        """Returns the number of ids requested in the window."""

    @property
    def written_bytes(self) -> int:
        """Returns the bytes written to disk in the window."""


@dataclass(frozen=True)
class Prices:
    """Seconds per id and per written byte. `residual`: the windows' root-mean-square error relative to their mean."""

    each_s: float
    byte_s: float
    residual: float

    def seconds(self, ids: float, size_bytes: float) -> float:
        """Returns the cost of ids and written bytes in seconds."""
        return self.each_s * ids + self.byte_s * size_bytes


def fitted(windows: Sequence[Measured], seconds: Sequence[float]) -> Prices:
    """Fits non-negative prices to the windows. Raises ValueError without windows."""
    if not windows:
        raise ValueError("nothing can be fitted to no windows")
    took = np.array(seconds)
    amounts = np.array([[candidate.window_ids, candidate.written_bytes] for candidate in windows], np.float64)
    fits = [_least_squares(amounts, took, used) for used in ([0, 1], [0], [1])]
    each_s, byte_s = min(
        (candidate for candidate in fits if (candidate >= 0).all()),
        key=lambda candidate: _residual(amounts, took, candidate),
    )
    return Prices(float(each_s), float(byte_s), _residual(amounts, took, np.array([each_s, byte_s])))


def _least_squares(amounts: F64, took: F64, used: list[int]) -> F64:
    prices = np.zeros(2)
    # Scaled, since ids and bytes differ by orders of magnitude.
    scale = np.maximum(amounts.max(axis=0), 1)[used]
    prices[used] = np.linalg.lstsq(amounts[:, used] / scale, took, rcond=None)[0] / scale
    return prices


def _residual(amounts: F64, took: F64, prices: F64) -> float:
    return float(np.sqrt(np.mean((amounts @ prices - took) ** 2)) / took.mean())


def record_writes(ids: int, round_ids: int) -> int:
    """Returns the number of records written to runs until `ids` ids have left memory, `round_ids` at a time.

    A record is written when its id leaves memory, and again by each merge that includes it.
    """
    sizes: list[int] = []
    total = 0
    for _ in range(ids // max(1, round_ids)):
        sizes.append(round_ids)
        total += round_ids
        while (gone := to_merge([(size, size) for size in sizes])) is not None:
            merged = sum(sizes[gone])
            sizes[gone] = [merged]
            total += merged
    return total


@dataclass(frozen=True)
class Growth:
    """The totals of a run.

    `asked` requested ids contained `ids` distinct ones, of which `cold_ids` left memory in `rounds` rounds.
    """

    asked: int
    ids: int
    cold_ids: int
    rounds: int
    written_bytes: int

    def run_bytes_at(self, ids: int) -> int:
        """Returns the bytes written to runs until there are `ids` distinct ids, as many in memory as in this run."""
        if not self.rounds:
            return 0
        cold_ids = max(0, ids - (self.ids - self.cold_ids))
        return RECORD_BYTES * record_writes(cold_ids, max(1, self.cold_ids // self.rounds))

    def bytes_at(self, ids: int) -> float:
        """Returns all bytes written: those of runs, and for each id as many others as in this run."""
        others = max(0, self.written_bytes - self.run_bytes_at(self.ids)) / self.ids
        return self.run_bytes_at(ids) + others * ids


def seconds_at(ids: int, prices: Prices, growth: Growth) -> float:
    """Returns the seconds of a run to `ids` distinct ids, at least those of its merges at their limited write rate."""
    lookups = ids * growth.asked / growth.ids
    merging_s = growth.run_bytes_at(ids) / Limits().merge_bytes_per_second
    return max(prices.seconds(lookups, growth.bytes_at(ids)), merging_s)
