"""Looks up ids that were moved out of the table in sorted runs, each with a Bloom filter, like MillWheel (VLDB 2013).

A filter only ever skips a look-up. If it is not sound (overfull, of another version, or missing), every id is looked
up. A run answers with an archive; the ledger's entries determine the state of its ids (`lsm.archives`).
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

# Each further run costs one more probe per new id and a share of the false-positive rate.
RUNS_MAX = 4


@dataclass
class ColdRun:
    """Looks up ids in one sorted run, after its Bloom filter.

    archives: numbers of the archives whose ids it holds.
    damaged: why it no longer answers.
    """

    name: str
    run: Run
    filter: Filter | None
    archives: tuple[int, ...]
    damaged: str | None = None

    def candidates(self, ids: U64) -> NDArray[np.intp]:
        """Returns the indexes of ids, shape (n, 2), that must be looked up: all that the filter does not exclude."""
        if self.filter is None or not self.filter.sound:
            return np.arange(len(ids))
        return np.flatnonzero(self.filter.might_hold(ids))

    def find(self, ids: U64) -> I64:
        """Returns the archive of each id, int64 (n,), or -1. Raises Recovering if the run is damaged; it is then
        rebuilt.
        """
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
    """Counts look-ups of cold ids and their results.

    asked: number of ids, each counted once.
    hits: ids that some run holds.
    looked_up: look-ups in runs, perhaps several per id; filters skipped asked × runs − looked_up.
    in_vain: look-ups of ids that no run holds.
    """

    asked: int = 0
    hits: int = 0
    looked_up: int = 0
    in_vain: int = 0

    def ended(self, asked: int, hits: Sequence[NDArray[np.intp]], misses: Sequence[NDArray[np.intp]]) -> None:
        """Counts a request for `asked` ids. hits, misses: for each run, the indices of ids that it held, and did not
        hold.
        """
        is_hit = np.zeros(asked, np.bool_)
        for indices in hits:
            is_hit[indices] = True
        self.asked += asked
        self.hits += int(np.count_nonzero(is_hit))
        self.looked_up += sum(map(len, (*hits, *misses)))
        # A false positive for an id of another run says nothing about new ids.
        self.in_vain += sum(int(np.count_nonzero(~is_hit[indices])) for indices in misses)

    @property
    def false_positive_rate(self) -> float:
        """Returns the measured number of useless look-ups per id that is in no run, summed over all runs; 0 without
        data.
        """
        absent = self.asked - self.hits
        return self.in_vain / absent if absent > 0 else 0.0


@dataclass
class ColdTier:
    """Looks up all ids that were moved out of memory, in a few sorted runs.

    runs: the oldest and largest first.
    when_damaged: called whenever a run could not answer.
    """

    archives: ArchiveIndex
    runs: list[ColdRun] = field(default_factory=list)
    looks: LookupStats = field(default_factory=LookupStats)
    when_damaged: Callable[[], None] = lambda: None

    def find(self, ids: U64) -> I64 | None:
        """Returns the live archive of each id, int64 (n,), -1 for none. ids: uint64 (n, 2), tag and home.

        Returns None if no id has one, as for most requests of few ids. Raises Recovering if a run could not answer.
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
        """Replaces runs atomically. The new runs are inserted at the position of the first old one, or last."""
        runs = [run for run in self.runs if run not in gone]
        at = min((index for index, run in enumerate(self.runs) if run in gone), default=len(runs))
        runs[at:at] = by
        self.runs = runs

    def missing(self) -> list[Archive]:
        """Returns live archives that no intact run contains: their ids are still in the table, or a run must be
        rebuilt.
        """
        in_runs = {number for run in self.runs if run.damaged is None for number in run.archives}
        return [archive for archive in self.archives.live if archive.number not in in_runs]

    def damaged(self) -> list[ColdRun]:
        """Returns the runs that have failed and are no longer read."""
        return [run for run in self.runs if run.damaged is not None]

    def idle(self) -> list[ColdRun]:
        """Returns the runs whose archives have all retired."""
        return [run for run in self.runs if not any(number in self.archives.by_number for number in run.archives)]

    def live_ids(self, run: ColdRun) -> int:
        """Counts the ids of a run that are still known."""
        known = (self.archives.by_number.get(number) for number in run.archives)
        return sum(archive.ids for archive in known if archive is not None)

    @property
    def size_bytes(self) -> int:
        """Returns the bytes of filters and fences in memory."""
        filters = sum(run.filter.size_bytes for run in self.runs if run.filter is not None)
        return filters + sum(run.run.size_bytes for run in self.runs)


def fpr_of(tier_index: int, cold_fpr: float) -> float:
    """Returns the Bloom filter's false-positive rate for the run at an index of the tier; run 0 is the oldest and
    largest.

    Rates are halved from run to run, so that their sum is at most `cold_fpr` for any runs, and the most ids have the
    cheapest filter.
    """
    halvings: int = min(tier_index + 1, RUNS_MAX - 1)
    return cold_fpr / (1 << halvings)


def warm_up() -> None:
    """Compiles the look-up in runs, or loads it from numba's cache, so that no request waits for it."""
    ids, sieve = np.ones((1, 2), np.uint64), make("blocked", 1, 0.01)
    sieve.add(ids)
    run = Run(memoryview(b"".join(encode([sorted_records(ids)], {}))))
    ColdTier(ArchiveIndex(), [ColdRun("warm", run, sieve, ())]).find(ids)
    assert len(list(merge([run], np.ones(1, np.uint8)))) == 1
