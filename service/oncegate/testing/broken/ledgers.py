"""The list of ledgers that each break one promise, over any good ledger; `check_ledger` must fail each of them.

@pytest.mark.parametrize("breaks", BREAKS)
async def test_the_suite_catches(breaks):
    with pytest.raises(AssertionError):
        await check_ledger(broken(make_place, breaks))
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from oncegate.ports import Ledgers, OpenLedger, RunFolders, Runs
from oncegate.testing import compaction_checks, ledger_checks, output_checks, runs_checks
from oncegate.testing.broken import appends, compactions
from oncegate.testing.broken import runs as broken_runs
from oncegate.testing.broken.base import Broken
from oncegate.testing.ledger_places import LedgerCheck, LedgersUnderTest, MakePlace


class WritesRunsInPlace(Broken):
    """Keeps the written part of an LSM run whose write failed."""

    @staticmethod
    def beside(runs: Runs) -> Runs:
        return broken_runs.WritesInPlace(runs)


class WritesRunsOnce(Broken):
    """Ignores writes of an LSM run that exists."""

    @staticmethod
    def beside(runs: Runs) -> Runs:
        return broken_runs.WritesOnce(runs)


class LosesRuns(Broken):
    """Loses LSM runs when their owner ends."""

    @staticmethod
    def beside(runs: Runs) -> Runs:
        return broken_runs.WritesToItself(runs)


class RemovesRunsUnderReaders(Broken):
    """Empties a removed LSM run for its open readers."""

    @staticmethod
    def beside(runs: Runs) -> Runs:
        return broken_runs.RemovesUnderReaders(runs)


class TakesAnyNameOfARun(Broken):
    """Accepts any name for an LSM run."""

    @staticmethod
    def beside(runs: Runs) -> Runs:
        return broken_runs.TakesAnyName(runs)


class DeletesNothing(Broken):
    """Keeps deleted namespaces available under their names."""


# Each broken ledger, and the check that must catch it.
BREAKS: dict[type[Broken], LedgerCheck] = {
    appends.ForgetsTheLastAppend: ledger_checks.opening_again_gives_the_same,
    appends.AnswersBeforeDurable: ledger_checks.nothing_is_answered_before_it_is_durable,
    appends.ReturnsEntriesOutOfOrder: ledger_checks.entries_come_back_in_order,
    appends.OpensShorterThanItWas: ledger_checks.opening_again_gives_the_same,
    appends.ServesUnpublishedRows: output_checks.outputs_are_read_by_offset,
    appends.ForgetsWhatWasPublished: output_checks.one_append_writes_and_publishes,
    appends.AcceptsAnOldEpoch: ledger_checks.an_older_owner_is_fenced,
    appends.ForgetsTrims: output_checks.trimmed_offsets_are_refused,
    appends.TrimsApart: output_checks.a_trim_is_part_of_its_append,
    appends.FetchesWithoutBound: output_checks.fetches_are_bounded_in_bytes,
    compactions.CompactsNothing: compaction_checks.everything_can_be_compacted_again,
    compactions.CompactsTheRestToo: compaction_checks.compacted_entries_are_replaced,
    compactions.CompactsOnce: compaction_checks.everything_can_be_compacted_again,
    compactions.CompactsBeforeDurable: compaction_checks.a_compaction_is_durable,
    compactions.CompactsOutputsToo: compaction_checks.outputs_outlive_a_compaction,
    compactions.CompactsAnywhere: compaction_checks.only_the_end_of_an_append_is_compacted,
    compactions.LosesAppendsWhileItCompacts: compaction_checks.appends_go_on_while_it_compacts,
    compactions.CompactsUpToTheEnd: compaction_checks.a_snapshot_may_be_made_while_appends_go_on,
    compactions.CompactsWhatCame: compaction_checks.a_snapshot_that_fails_changes_nothing,
    DeletesNothing: ledger_checks.a_deleted_namespace_answers_nobody,
    WritesRunsInPlace: runs_checks.a_run_that_was_cut_short_is_not_there,
    WritesRunsOnce: runs_checks.runs_are_replaced_and_removed,
    LosesRuns: runs_checks.runs_are_durable,
    RemovesRunsUnderReaders: runs_checks.runs_are_replaced_and_removed,
    TakesAnyNameOfARun: runs_checks.bad_names_of_runs_are_refused,
}


class _BrokenLedgers:
    def __init__(self, good: Ledgers, breaks: type[Broken], broken_ledgers: "_BrokenPlace") -> None:
        self._good = good
        self._breaks = breaks
        self._place = broken_ledgers

    def names(self) -> list[str]:
        return self._good.names()

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        await self._good.create(namespace, key)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        crashes = self._place.crashes
        async with self._good.open(namespace) as opened:
            ledger = self._breaks(opened.ledger, opened.outputs)
            yield replace(opened, ledger=ledger, outputs=None if opened.outputs is None else ledger)
            if self._place.crashes == crashes:
                await ledger.close()

    async def delete(self, namespace: str) -> None:
        if self._breaks is not DeletesNothing:
            await self._good.delete(namespace)


class _BrokenRunFolders:
    def __init__(self, good: RunFolders, breaks: type[Broken]) -> None:
        self._good = good
        self._breaks = breaks

    @asynccontextmanager
    async def open(self, namespace: str, opened: OpenLedger) -> AsyncIterator[Runs]:
        async with self._good.open(namespace, opened) as runs:
            yield self._breaks.beside(runs)


class _BrokenPlace:
    def __init__(self, good: LedgersUnderTest, breaks: type[Broken]) -> None:
        self._good = good
        self._breaks = breaks
        self.crashes = 0

    @asynccontextmanager
    async def ledgers(self) -> AsyncIterator[Ledgers]:
        async with self._good.ledgers() as ledgers:
            yield _BrokenLedgers(ledgers, self._breaks, self)

    def runs(self) -> RunFolders:
        return _BrokenRunFolders(self._good.runs(), self._breaks)

    def crash(self) -> None:
        self.crashes += 1
        self._good.crash()


def broken(make_place: MakePlace, breaks: type[Broken]) -> MakePlace:
    """Returns a `MakePlace` whose ledgers break a single promise."""

    @asynccontextmanager
    async def make() -> AsyncIterator[LedgersUnderTest]:
        async with make_place() as under_test:
            yield _BrokenPlace(under_test, breaks)

    return make
