"""Builds sorted runs of ids from archives and older runs, in a thread, piece by piece; selects the runs to merge."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from oncegate.arraytypes import U64
from oncegate.engine.maintenance import archive_log
from oncegate.engine.maintenance.run_files import RunFiles, RunPlan
from oncegate.index.lsm.archives import Archive, ArchiveIndex, total
from oncegate.index.lsm.run import RunDamaged, merge, sorted_records
from oncegate.index.lsm.tier import RUNS_MAX, ColdRun
from oncegate.ports import Outputs

Progress = Callable[[int], None]
_LARGER = 3


def to_merge(sizes: Sequence[tuple[int, int]]) -> slice | None:
    """Selects adjacent runs to merge into one; None if there is nothing to merge.

    `sizes`: (live ids, all ids) of each run, oldest first. A run with more than half of its ids forgotten is rewritten
    alone. At the limit of runs, the two newest are merged, with every older one that is less than three times as large
    as all newer ones together. An id is rewritten 9 times in 250 rounds and 16 times in 1,000; the optimum for three
    runs is 8 and 14.
    """
    for index, (live, size) in enumerate(sizes):
        if 2 * live < size:
            return slice(index, index + 1)
    if len(sizes) < RUNS_MAX:
        return None
    first = len(sizes) - 2
    while first and sizes[first - 1][1] < _LARGER * sum(size for _, size in sizes[first:]):
        first -= 1
    return slice(first, len(sizes))


class RunBuilder:
    """Builds sorted runs from archives and older runs.

    `spend` limits the rate of writing; `run_ids`: number of ids sorted in memory at once.
    """

    def __init__(self, outputs: Outputs, files: RunFiles, spend: Callable[[int], None], run_ids: int) -> None:
        self._outputs = outputs
        self._files = files
        self._spend = spend
        self._run_ids = run_ids

    async def of_records(self, archives: Sequence[tuple[Archive, U64]], tier_index: int) -> ColdRun:
        """Writes one run of archives with their ids, uint64 (n, 2). Raises LedgerFull, OSError, Stopped."""
        numbers = tuple(archive.number for archive, _ in archives)
        ids = sum(archive.ids for archive, _ in archives)
        return await self._written(RunPlan(_sorted([records for _, records in archives]), numbers, ids, tier_index))

    async def of_archives(
        self, archives: Sequence[Archive], tier_index: int, progress: Progress | None = None
    ) -> list[ColdRun]:
        """Writes runs of archives read from the ledger. Raises LedgerDamaged, and the errors of `of_records`.

        `progress` is called with the number of processed ids.
        """
        made: list[ColdRun] = []
        batch: list[tuple[Archive, U64]] = []
        count = 0
        async for archive, records in archive_log.read(self._outputs, archives):
            batch.append((archive, records))
            count += archive.ids
            if sum(len(one) for _, one in batch) >= self._run_ids:
                await self._add(made, batch, tier_index)
                batch = []
                if progress is not None:
                    progress(count)
        if batch:
            await self._add(made, batch, tier_index)
        return made

    async def _add(self, made: list[ColdRun], batch: Sequence[tuple[Archive, U64]], tier_index: int) -> None:
        made.append(await self.of_records(batch, tier_index + len(made)))
        while (gone := to_merge([(run.run.size, run.run.size) for run in made])) is not None:
            runs = made[gone]
            numbers, ids = tuple(n for run in runs for n in run.archives), sum(run.run.size for run in runs)
            chunks = merge([run.run for run in runs], np.ones(1 + max(numbers), np.uint8))
            made[gone] = [await self._written(RunPlan(chunks, numbers, ids, tier_index + gone.start))]
            await asyncio.to_thread(self._files.remove, runs)

    async def merged(self, runs: Sequence[ColdRun], sealed: ArchiveIndex, tier_index: int) -> ColdRun | None:
        """Merges runs into one run that omits retired ids. Returns None if a run is damaged, and marks that run."""
        numbers = [number for run in runs for number in run.archives if number in sealed.by_number]
        ids = total(sealed.by_number[number] for number in numbers)
        chunks = merge([run.run for run in runs], sealed.keep_mask())
        try:
            return await self._written(RunPlan(chunks, tuple(numbers), ids, tier_index))
        except RunDamaged as error:
            for run in runs:
                if str(error).startswith(run.name):
                    run.damaged = str(error)
            return None

    async def _written(self, plan: RunPlan) -> ColdRun:
        return await asyncio.to_thread(self._files.write, plan, self._files.marks.last, self._spend)


def _sorted(parts: list[U64]) -> Iterator[U64]:
    """Yields one sorted chunk, lazily, so that the writing thread does the sorting."""
    yield sorted_records(np.concatenate(parts))
