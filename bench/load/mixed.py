"""The mixed load of `bench.scale`: 90 % new ids, 8 % recent ones, 2 % old ones."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bench.load.bodies import U64

STREAM = 1
RECENT_FRACTION, OLD_FRACTION = 0.08, 0.02
# Recent ids are drawn from this number of newest ids.
RECENT_IDS = 1_000_000


_MULTIPLIERS = tuple(np.uint64(word) for word in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_SHIFTS = tuple(np.uint64(bits) for bits in (30, 27, 31))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mixed(word: Any) -> Any:
    word *= _MULTIPLIERS[0]
    word = (word ^ (word >> _SHIFTS[0])) * _MULTIPLIERS[1]
    word = (word ^ (word >> _SHIFTS[1])) * _MULTIPLIERS[2]
    return word ^ (word >> _SHIFTS[2])


@njit(cache=True)  # type: ignore[untyped-decorator]
def fill(stream: np.uint64, numbers: U64, ids: U64) -> None:
    """Writes `bodies.of_numbers` into `ids`. Compiled, since the load runs on the event loop that it measures."""
    for i in range(numbers.size):
        ids[i, 0] = _mixed(numbers[i] + (stream << np.uint64(40)) + np.uint64(1))
        ids[i, 1] = _mixed(ids[i, 0] ^ _MULTIPLIERS[0])


@dataclass(frozen=True, eq=False)
class Request:
    """The ids of a request, uint64 (n, 2); `new` bool[n]: the ids that no earlier request contained."""

    ids: U64
    new: NDArray[np.bool_]


class Mixed:
    """A generator of requests of `batch` ids each."""

    def __init__(self, batch: int, seed: int) -> None:
        self.batch = batch
        self.made = 0
        self._rng = np.random.default_rng(seed)
        self._recent, self._old = int(batch * RECENT_FRACTION), int(batch * OLD_FRACTION)

    def request(self, settled: int, old_below: int) -> Request:
        """Returns the next request; all its ids are new until some are settled.

        settled: ids with smaller numbers are done. old_below: ids with smaller numbers are old.
        """
        recent = self._recent if settled else 0
        old = self._old if settled and old_below else 0
        fresh = self.batch - recent - old
        numbers = np.empty(self.batch, np.uint64)
        numbers[:fresh] = np.arange(self.made, self.made + fresh, dtype=np.uint64)
        numbers[fresh : fresh + recent] = self._known(max(0, settled - RECENT_IDS), settled, recent)
        numbers[fresh + recent :] = self._known(0, old_below, old)
        ids = np.empty((self.batch, 2), np.uint64)
        fill(np.uint64(STREAM), numbers, ids)
        self.made += fresh
        return Request(ids, np.arange(self.batch) < fresh)

    def _known(self, first: int, end: int, count: int) -> NDArray[np.uint64]:
        return self._rng.integers(first, end, count, dtype=np.uint64) if count else np.empty(0, np.uint64)


class ExpiryBuckets:
    """Tracks the number below which all ids are done, while requests are settled in any order."""

    def __init__(self) -> None:
        self.below = 0
        self._later: dict[int, int] = {}

    def done(self, first: int, end: int) -> None:
        """Records that the ids in [first, end) are done."""
        self._later[first] = end
        while self.below in self._later:
            self.below = self._later.pop(self.below)
