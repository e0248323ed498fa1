"""The mixed load of `bench.scale`: 90 % new ids, 8 % recent ones, 2 % old ones. Arrays in, arrays out; no clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.bodies import U64, numbered, of_numbers

STREAM = 1
RECENT_FRACTION, OLD_FRACTION = 0.08, 0.02
# Recent ids are among so many newest.
RECENT_IDS = 1_000_000


@dataclass(frozen=True, eq=False)
class Request:
    """`ids` uint64 (n, 2); `new` bool[n]: which were never asked for before."""

    ids: U64
    new: NDArray[np.bool_]


class Mixed:
    """Makes requests of `batch` ids. `settled` says below which number ids are surely done."""

    def __init__(self, batch: int, seed: int) -> None:
        self.batch = batch
        self.made = 0
        self._rng = np.random.default_rng(seed)
        self._recent, self._old = int(batch * RECENT_FRACTION), int(batch * OLD_FRACTION)

    def request(self, settled: int, old_below: int) -> Request:
        """The next one. `old_below`: ids of smaller numbers are old; all new ones until anything is settled."""
        recent = self._recent if settled else 0
        old = self._old if settled and old_below else 0
        fresh = self.batch - recent - old
        ids = np.empty((self.batch, 2), np.uint64)
        ids[:fresh] = numbered(STREAM, self.made, fresh)
        if recent:
            ids[fresh : fresh + recent] = self._known(max(0, settled - RECENT_IDS), settled, recent)
        if old:
            ids[fresh + recent :] = self._known(0, old_below, old)
        self.made += fresh
        return Request(ids, np.arange(self.batch) < fresh)

    def _known(self, first: int, end: int, count: int) -> U64:
        return of_numbers(STREAM, self._rng.integers(first, end, count, dtype=np.uint64))


class Settled:
    """Below which number all ids are done, where requests are settled in any order."""

    def __init__(self) -> None:
        self.below = 0
        self._later: dict[int, int] = {}

    def done(self, first: int, end: int) -> None:
        """The ids from `first` up to `end` are done."""
        self._later[first] = end
        while self.below in self._later:
            self.below = self._later.pop(self.below)
