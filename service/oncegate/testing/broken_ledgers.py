"""Ledgers that each break one promise, over any good one: `check_ledger` must fail every one of them.

@pytest.mark.parametrize("breaks", BREAKS)
async def test_the_suite_catches(breaks):
    with pytest.raises(AssertionError):
        await check_ledger(broken(make_place, breaks))
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from oncegate.core.errors import LedgerFenced
from oncegate.ledgers.stating import entries_of
from oncegate.ports import (
    Chunk,
    DropRanges,
    Ledger,
    Ledgers,
    Mark,
    OpenLedger,
    OutputChange,
    PublishRanges,
    Replayed,
    Runs,
    State,
    TrimRanges,
    WriteRange,
)
from oncegate.testing import broken_runs, compaction_checks, ledger_checks, output_checks, runs_checks
from oncegate.testing.ledger_places import MakePlace, Place


class Broken:
    """A ledger that passes everything on; subclasses break one promise."""

    def __init__(self, good: Ledger) -> None:
        self.good = good

    @property
    def mark(self) -> Mark:
        return self.good.mark

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        return await self.good.append(entries, outputs)

    def replay(self, from_position: int) -> Iterable[Replayed]:
        return self.good.replay(from_position)

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        return await self.good.fetch(topic, partition, offset, max_rows, max_bytes)

    async def compact(self, position: int, state: State) -> None:
        await self.good.compact(position, state)

    def beside(self, runs: Runs) -> Runs:
        """The runs beside it."""
        return runs

    async def close(self) -> None:
        """Called when the owner leaves in good order; never in a crash."""


class ForgetsTheLastAppend(Broken):
    """Hands an append on only when the next one comes, and the last one never."""

    _kept: tuple[Sequence[bytes], Sequence[OutputChange]] = ((), ())

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        await self.good.append(*self._kept)
        self._kept = (entries, outputs)
        mark = self.good.mark
        return replace(mark, position=mark.position + len(entries))


class AnswersBeforeDurable(Broken):
    """Keeps what it acknowledged to itself until its owner leaves in good order."""

    _late: list[tuple[Sequence[bytes], Sequence[OutputChange]]]

    def __init__(self, good: Ledger) -> None:
        super().__init__(good)
        self._late = []

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        self._late.append((entries, outputs))
        return Mark(self.good.mark.ledger, self.mark.position, bytes(8))

    @property
    def mark(self) -> Mark:
        mark = self.good.mark
        return replace(mark, position=mark.position + sum(len(entries) for entries, _ in self._late))

    def replay(self, from_position: int) -> Iterable[Replayed]:
        late = [body for entries, _ in self._late for body in entries]
        first = self.good.mark.position + 1
        seen = [*self.good.replay(1), *(Replayed(first + i, body, self.mark) for i, body in enumerate(late))]
        return seen[from_position - 1 :]

    async def close(self) -> None:
        for entries, outputs in self._late:
            await self.good.append(entries, outputs)


class ReturnsEntriesOutOfOrder(Broken):
    def replay(self, from_position: int) -> Iterable[Replayed]:
        seen = list(self.good.replay(from_position))
        return [*seen[:-2], *reversed(seen[-2:])]


class OpensShorterThanItWas(Broken):
    """Shows what it held when it was opened, without the last append."""

    def __init__(self, good: Ledger) -> None:
        super().__init__(good)
        self._gone = good.mark

    def replay(self, from_position: int) -> Iterable[Replayed]:
        return [replayed for replayed in self.good.replay(from_position) if replayed.mark != self._gone]


class ServesUnpublishedRows(Broken):
    """Publishes a range to the topic `t` as soon as it is written."""

    def __init__(self, good: Ledger) -> None:
        super().__init__(good)
        self._written: list[Chunk] = []

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        mark = await self.good.append(entries, outputs)
        for output in outputs:
            if isinstance(output, WriteRange):
                self._written.append(Chunk(sum(chunk.rows for chunk in self._written), output.rows, output.data))
        return mark

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        return await self.good.fetch(topic, partition, offset, max_rows, max_bytes) or self._written


class ForgetsWhatWasPublished(Broken):
    """Keeps entries, loses the outputs of an append without entries: half a commit."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        return await self.good.append(entries, [o for o in outputs if not isinstance(o, PublishRanges)])


class AcceptsAnOldEpoch(Broken):
    """An owner that was fenced writes through whoever came after it."""

    newest: Ledger | None = None

    def __init__(self, good: Ledger) -> None:
        super().__init__(good)
        type(self).newest = good

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        try:
            return await self.good.append(entries, outputs)
        except LedgerFenced:
            assert self.newest is not None
            return await self.newest.append(entries, outputs)


class ForgetsTrims(Broken):
    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        return await self.good.append(entries, [o for o in outputs if not isinstance(o, TrimRanges)])


class TrimsApart(Broken):
    """Trims first, in an append of its own, and then does the rest: two changes instead of one."""

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        await self.good.append([], [o for o in outputs if isinstance(o, TrimRanges)])
        return await self.good.append(entries, [o for o in outputs if not isinstance(o, TrimRanges)])


class FetchesWithoutBound(Broken):
    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        return await self.good.fetch(topic, partition, offset, max_rows, 1 << 60)


class CompactsNothing(Broken):
    async def compact(self, position: int, state: State) -> None:
        pass


class CompactsTheRestToo(Broken):
    """What was appended after the collected position is gone as well."""

    async def compact(self, position: int, state: State) -> None:
        await self.good.compact(self.good.mark.position, state)


class CompactsOnce(Broken):
    """The first state stays for ever."""

    _compacted = False

    async def compact(self, position: int, state: State) -> None:
        if not self._compacted:
            await self.good.compact(position, state)
        self._compacted = True


class CompactsBeforeDurable(Broken):
    """Shows the state at once, and writes it when its owner leaves in good order."""

    _late: tuple[int, Sequence[bytes]] | None = None

    async def compact(self, position: int, state: State) -> None:
        self._late = (position, [entry async for entry in entries_of(state)])

    def replay(self, from_position: int) -> Iterable[Replayed]:
        seen = list(self.good.replay(from_position))
        if self._late is None or from_position > self._late[0]:
            return seen
        position, state = self._late
        mark = next(one.mark for one in seen if one.position == position)
        return [Replayed(position, body, mark) for body in state] + [one for one in seen if one.position > position]

    async def close(self) -> None:
        if self._late is not None:
            await self.good.compact(*self._late)


class CompactsOutputsToo(Broken):
    """Ranges that wait are gone after a collection."""

    def __init__(self, good: Ledger) -> None:
        super().__init__(good)
        self._waiting: set[bytes] = set()

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        mark = await self.good.append(entries, outputs)
        for output in outputs:
            match output:
                case WriteRange():
                    self._waiting.add(output.range_id)
                case PublishRanges() | DropRanges():
                    self._waiting -= set(output.range_ids)
        return mark

    async def compact(self, position: int, state: State) -> None:
        await self.good.compact(position, state)
        await self.good.append([], [DropRanges(tuple(self._waiting))])
        self._waiting.clear()


class CompactsAnywhere(Broken):
    """Takes any position for one where an append ended, and does not say that nothing was collected."""

    async def compact(self, position: int, state: State) -> None:
        with suppress(ValueError):
            await self.good.compact(position, state)


class LosesAppendsWhileItCompacts(Broken):
    """Goes on with what was there when the collection began."""

    _meanwhile: asyncio.Event | None = None

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        if self._meanwhile is None:
            return await self.good.append(entries, outputs)
        self._meanwhile.set()
        return self.good.mark

    async def compact(self, position: int, state: State) -> None:
        self._meanwhile = asyncio.Event()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._meanwhile.wait(), 0.05)
        self._meanwhile = None
        await self.good.compact(position, state)


class CompactsUpToTheEnd(Broken):
    """What was appended while the state was made is gone as well."""

    async def compact(self, position: int, state: State) -> None:
        made = [entry async for entry in entries_of(state)]
        await self.good.compact(position if isinstance(state, Sequence) else self.good.mark.position, made)


class CompactsWhatCame(Broken):
    """A state that came to no end is taken for whole."""

    async def compact(self, position: int, state: State) -> None:
        came, entries = list[bytes](), entries_of(state)
        try:
            while (entry := await anext(entries, None)) is not None:
                came.append(entry)
        finally:
            await self.good.compact(position, came)


class WritesRunsInPlace(Broken):
    def beside(self, runs: Runs) -> Runs:
        return broken_runs.WritesInPlace(runs)


class WritesRunsOnce(Broken):
    def beside(self, runs: Runs) -> Runs:
        return broken_runs.WritesOnce(runs)


class LosesRuns(Broken):
    def beside(self, runs: Runs) -> Runs:
        return broken_runs.WritesToItself(runs)


class RemovesRunsUnderReaders(Broken):
    def beside(self, runs: Runs) -> Runs:
        return broken_runs.RemovesUnderReaders(runs)


class TakesAnyNameOfARun(Broken):
    def beside(self, runs: Runs) -> Runs:
        return broken_runs.TakesAnyName(runs)


# Each with the check that exists because of it.
BREAKS: dict[type[Broken], Callable[[Place], Awaitable[None]]] = {
    ForgetsTheLastAppend: ledger_checks.opening_again_gives_the_same,
    AnswersBeforeDurable: ledger_checks.nothing_is_answered_before_it_is_durable,
    ReturnsEntriesOutOfOrder: ledger_checks.entries_come_back_in_order,
    OpensShorterThanItWas: ledger_checks.opening_again_gives_the_same,
    ServesUnpublishedRows: output_checks.outputs_are_read_by_offset,
    ForgetsWhatWasPublished: output_checks.one_append_writes_and_publishes,
    AcceptsAnOldEpoch: ledger_checks.an_older_owner_is_fenced,
    ForgetsTrims: output_checks.trimmed_offsets_are_refused,
    TrimsApart: output_checks.a_trim_is_part_of_its_append,
    FetchesWithoutBound: output_checks.fetches_are_bounded_in_bytes,
    CompactsNothing: compaction_checks.everything_can_be_compacted_again,
    CompactsTheRestToo: compaction_checks.compacted_entries_are_replaced,
    CompactsOnce: compaction_checks.everything_can_be_compacted_again,
    CompactsBeforeDurable: compaction_checks.a_compaction_is_durable,
    CompactsOutputsToo: compaction_checks.outputs_outlive_a_compaction,
    CompactsAnywhere: compaction_checks.only_the_end_of_an_append_is_compacted,
    LosesAppendsWhileItCompacts: compaction_checks.appends_go_on_while_it_compacts,
    CompactsUpToTheEnd: compaction_checks.a_state_may_come_while_appends_go_on,
    CompactsWhatCame: compaction_checks.a_state_that_comes_to_no_end_changes_nothing,
    WritesRunsInPlace: runs_checks.a_run_that_was_cut_short_is_not_there,
    WritesRunsOnce: runs_checks.runs_are_replaced_and_removed,
    LosesRuns: runs_checks.runs_are_durable,
    RemovesRunsUnderReaders: runs_checks.runs_are_replaced_and_removed,
    TakesAnyNameOfARun: runs_checks.bad_names_of_runs_are_refused,
}


class _BrokenLedgers:
    def __init__(self, good: Ledgers, breaks: type[Broken], place: "_BrokenPlace") -> None:
        self._good = good
        self._breaks = breaks
        self._place = place

    def names(self) -> list[str]:
        return self._good.names()

    async def create(self, namespace: str) -> None:
        await self._good.create(namespace)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        crashes = self._place.crashes
        async with self._good.open(namespace) as opened:
            ledger = self._breaks(opened.ledger)
            yield replace(opened, ledger=ledger, runs=ledger.beside(opened.runs))
            if self._place.crashes == crashes:
                await ledger.close()

    def free_bytes(self) -> tuple[int, int]:
        return self._good.free_bytes()


class _BrokenPlace:
    def __init__(self, good: Place, breaks: type[Broken]) -> None:
        self._good = good
        self._breaks = breaks
        self.crashes = 0

    @asynccontextmanager
    async def ledgers(self) -> AsyncIterator[Ledgers]:
        async with self._good.ledgers() as ledgers:
            yield _BrokenLedgers(ledgers, self._breaks, self)

    def crash(self) -> None:
        self.crashes += 1
        self._good.crash()


def broken(make_place: MakePlace, breaks: type[Broken]) -> MakePlace:
    """Places whose ledgers break one promise and keep the others as the good ones do."""

    @asynccontextmanager
    async def make() -> AsyncIterator[Place]:
        async with make_place() as place:
            yield _BrokenPlace(place, breaks)

    return make
