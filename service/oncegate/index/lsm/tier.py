"""Looks up ids that left the table, in sorted runs, each behind a Bloom filter (MillWheel's shape, VLDB 2013).

A filter only ever skips a look-up. One that is not sound (full, of another version, or none) is passed over: then every
id is looked up. What a run answers is an archive; what its ids are now, the ledger's entries say (`lsm.archives`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oncegate.arraytypes import I64, U64
from oncegate.core.errors import Recovering
from oncegate.index.lsm.archives import GONE, Archive, ArchiveIndex
from oncegate.index.lsm.bloom import Filter, make
from oncegate.index.lsm.run import Run, RunDamaged, encode, merge, sorted_records

# More of them cost every new id as many looks, and share out one rate of false positives.
RUNS_MAX = 4


@dataclass
class ColdRun:
    """Looks up ids in one sorted run, behind its filter.

    `archives`: numbers of those whose ids it holds. `damaged`: why it answers nothing any more.
    """

    name: str
    run: Run
    filter: Filter | None
    archives: tuple[int, ...]
    damaged: str | None = None

    def candidates(self, ids: U64) -> NDArray[np.intp]:
        """Chooses which of the ids, shape (n, 2), must be looked up: all but those that are not here for sure."""
        if self.filter is None or not self.filter.sound:
            return np.arange(len(ids))
        return np.flatnonzero(self.filter.might_hold(ids))

    def find(self, ids: U64) -> I64:
        """Returns the archive of each id, int64 (n,), or -1. Raises Recovering: the run is damaged, and made again."""
        if self.damaged is None:
            try:
                return self.run.find(ids)
            except RunDamaged as error:
                self.damaged = str(error)
        raise Recovering(f"a run of old ids is damaged and is made again from the ledger; nothing was written ({self})")

    def __str__(self) -> str:
        return f"{self.name}: {self.damaged}" if self.damaged else self.name


@dataclass
class LookupStats:
    """Counts what look-ups of cold ids came to.

    `asked`: ids asked about, each once. `hits`: those that some run holds. `looked_up`: look-ups in runs, several
    an id perhaps. `in_vain`: those of ids that no run holds. What filters passed over is asked × runs − looked_up.
    """

    asked: int = 0
    hits: int = 0
    looked_up: int = 0
    in_vain: int = 0

    def ended(self, asked: int, hits: Sequence[NDArray[np.intp]], misses: Sequence[NDArray[np.intp]]) -> None:
        """Counts a request of `asked` ids; of each run, the indices of those that it held, and was asked for in
        vain."""
        is_hit = np.zeros(asked, np.bool_)
        for indices in hits:
            is_hit[indices] = True
        self.asked += asked
        self.hits += int(np.count_nonzero(is_hit))
        self.looked_up += sum(map(len, (*hits, *misses)))
        # A run's filter that was wrong about an id of another run tells nothing of ids that are new.
        self.in_vain += sum(int(np.count_nonzero(~is_hit[indices])) for indices in misses)

    @property
    def false_positive_rate(self) -> float:
        """Tells how many look-ups were in vain for each id that is in no run, measured, over all runs; 0 before any."""
        absent = self.asked - self.hits
        return self.in_vain / absent if absent > 0 else 0.0


@dataclass
class ColdTier:
    """Answers for all ids that left memory, from a few sorted runs.

    `runs`: the oldest and largest first. `when_damaged` is called whenever one could not answer.
    """

    archives: ArchiveIndex
    runs: list[ColdRun] = field(default_factory=list)
    looks: LookupStats = field(default_factory=LookupStats)
    when_damaged: Callable[[], None] = lambda: None

    def find(self, ids: U64) -> I64 | None:
        """Returns the live archive of each id, int64 (n,), -1 for none; `ids`: uint64 (n, 2), tag and home. None: no
        id has one, as with most requests of few ids.

        Raises Recovering: what one of them is cannot be known now.
        """
        live_archives = None
        hits: list[NDArray[np.intp]] = []
        misses: list[NDArray[np.intp]] = []
        for run in self.runs:
            at = run.candidates(ids)
            if not len(at):
                continue
            try:
                archives = run.find(ids[at])
            except Recovering:
                self.when_damaged()
                raise
            here = archives >= 0
            hits.append(at[here])
            misses.append(at[~here])
            live = here & (self.archives.kinds_of(archives) != GONE)
            if live.any():
                live_archives = np.full(len(ids), -1, np.int64) if live_archives is None else live_archives
                live_archives[at[live]] = archives[live]
        if hits:
            self.looks.ended(len(ids), hits, misses)
        else:
            self.looks.asked += len(ids)
        return live_archives

    def replace(self, gone: Sequence[ColdRun], by: Sequence[ColdRun]) -> None:
        """Replaces runs at once: `by` stands where the first of `gone` stood, or last."""
        runs = [run for run in self.runs if run not in gone]
        at = min((index for index, run in enumerate(self.runs) if run in gone), default=len(runs))
        runs[at:at] = by
        self.runs = runs

    def missing(self) -> list[Archive]:
        """Lists live archives that are in no sound run: nothing is dropped for them, or it must be made again."""
        in_runs = {number for run in self.runs if run.damaged is None for number in run.archives}
        return [archive for archive in self.archives.live if archive.number not in in_runs]

    def damaged(self) -> list[ColdRun]:
        """Lists the runs that answer nothing any more."""
        return [run for run in self.runs if run.damaged is not None]

    def idle(self) -> list[ColdRun]:
        """Lists runs of which nothing is known any more."""
        return [run for run in self.runs if not any(number in self.archives.by_number for number in run.archives)]

    def live_ids(self, run: ColdRun) -> int:
        """Counts how many of a run's ids are known still."""
        known = (self.archives.by_number.get(number) for number in run.archives)
        return sum(archive.ids for archive in known if archive is not None)

    @property
    def size_bytes(self) -> int:
        """Counts the bytes of filters and fences in memory."""
        filters = sum(run.filter.size_bytes for run in self.runs if run.filter is not None)
        return filters + sum(run.run.size_bytes for run in self.runs)


def fpr_of(tier_index: int, cold_fpr: float) -> float:
    """Returns the rate of the filter of the run at this index of the tier, 0 the oldest and largest: halves, so that
    their sum is no more than `cold_fpr` whichever runs there are, and the most ids have the cheapest filter."""
    halvings: int = min(tier_index + 1, RUNS_MAX - 1)
    return cold_fpr / (1 << halvings)


def warm_up() -> None:
    """Compiles what looks into runs, or loads it from numba's cache, so that no request waits for it."""
    ids, sieve = np.ones((1, 2), np.uint64), make("blocked", 1, 0.01)
    sieve.add(ids)
    run = Run(memoryview(b"".join(encode([sorted_records(ids)], {}))))
    ColdTier(ArchiveIndex(), [ColdRun("warm", run, sieve, ())]).find(ids)
    assert len(list(merge([run], np.ones(1, np.uint8)))) == 1
