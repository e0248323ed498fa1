"""What a billion ids would cost, from what the windows of a run did: a model with two prices, and how well it fits.

A straight line through the windows' costs is no model: what stays in memory is bounded, so an id's own cost levels off.
What does grow is how often an id is written anew, by merges of at most four runs: with r runs some r-th root of the
number of rounds (Dayan, Athanassoulis and Idreos, "Monkey", SIGMOD 2017, 3), here counted by the policy itself. So:

    seconds = each * ids + byte * bytes written

The two prices are found by least squares over the windows in which ids left memory, each of which says how many bytes
it wrote. It holds as long as the runs that old ids are looked up in fit the system's page cache beside all else.
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
    """What is needed of a window: its ids, what they took, and what was written meanwhile."""

    @property
    def window_ids(self) -> int:
        """Counts the ids asked for within the window."""

    @property
    def written_bytes(self) -> int:
        """Counts the bytes written to disk within the window."""


@dataclass(frozen=True)
class Prices:
    """Seconds an id and a byte written; `residual`: of a window, the root of the mean square as a share of the mean."""

    each_s: float
    byte_s: float
    residual: float

    def seconds(self, ids: float, size_bytes: float) -> float:
        """Returns what so many ids and written bytes cost."""
        return self.each_s * ids + self.byte_s * size_bytes


def fitted(windows: Sequence[Measured], seconds: Sequence[float]) -> Prices:
    """The prices that come nearest to these windows, neither below zero. ValueError: there are no windows."""
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
    # Ids and bytes differ by orders of magnitude.
    scale = np.maximum(amounts.max(axis=0), 1)[used]
    prices[used] = np.linalg.lstsq(amounts[:, used] / scale, took, rcond=None)[0] / scale
    return prices


def _residual(amounts: F64, took: F64, prices: F64) -> float:
    return float(np.sqrt(np.mean((amounts @ prices - took) ** 2)) / took.mean())


def record_writes(ids: int, round_ids: int) -> int:
    """How many records are written to runs until so many ids have left memory, `round_ids` at a time: each when it
    leaves, and again at each merge that takes it along."""
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
    """What a run did: `ids` different ones among `asked`, of which `cold_ids` left memory in `rounds` rounds; what it
    wrote to files in all."""

    asked: int
    ids: int
    cold_ids: int
    rounds: int
    written_bytes: int

    def run_bytes_at(self, ids: int) -> int:
        """Bytes of records written to runs until there are so many different ids, of which as many are in memory."""
        if not self.rounds:
            return 0
        cold_ids = max(0, ids - (self.ids - self.cold_ids))
        return RECORD_BYTES * record_writes(cold_ids, max(1, self.cold_ids // self.rounds))

    def bytes_at(self, ids: int) -> float:
        """Bytes written in all: those of runs, and of each id as many others as here."""
        others = max(0, self.written_bytes - self.run_bytes_at(self.ids)) / self.ids
        return self.run_bytes_at(ids) + others * ids


def seconds_at(ids: int, prices: Prices, growth: Growth) -> float:
    """What a run to so many different ids takes; no less than its merges take at the rate that they may write at."""
    lookups = ids * growth.asked / growth.ids
    merging_s = growth.run_bytes_at(ids) / Limits().merge_bytes_per_second
    return max(prices.seconds(lookups, growth.bytes_at(ids)), merging_s)
