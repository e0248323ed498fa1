"""The outcomes of appends for the group commit: the numbers after a refusal, and the outcome that counts if there are
two."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Probe
from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull, OncegateError, TooLarge
from oncegate.core.lifecycle import BESIDE_APPENDS, BY_APPENDS, ENDS, AppendOutcome, Event, end_of
from oncegate.engine.commit.group_commit import GroupCommit
from oncegate.engine.commit.marks import Marks
from oncegate.ports import AppendRefused, Mark
from oncegate.testing.clock import FakeClock
from tests.support.memory_gateway import run_ready_tasks

LEDGER = bytes(16)


class Ledger:
    """Refuses its first appends with these errors, and accepts the others."""

    def __init__(self, *refusals: Exception) -> None:
        self.mark, self._refusals = Mark(LEDGER, 0, bytes(8)), list(refusals)
        self.gate = asyncio.Event()
        self.gate.set()

    async def append(self, entries: Sequence[bytes], outputs: Sequence[Any]) -> Mark:
        await self.gate.wait()
        if self._refusals:
            raise self._refusals.pop(0)
        self.mark = Mark(LEDGER, self.mark.position + len(entries), bytes(8))
        return self.mark


def submit(commit: GroupCommit, count: int = 1) -> int:
    return commit.submit([encode(Probe(0))] * count, [], lambda: None, lambda: None)


def made(ledger: Ledger) -> GroupCommit:
    return GroupCommit(ledger, FakeClock(), Marks(LEDGER))  # type: ignore[arg-type]


async def test_after_a_refused_append_the_next_one_begins_behind_what_is_durable() -> None:
    commit = made(Ledger(LedgerFull("no space left on device")))
    submit(commit, 3)
    await commit.append_all()
    assert (commit.mark.position, commit.next_position, commit.next_append) == (0, 1, 1)


async def test_after_a_refused_part_of_an_append_the_next_one_begins_behind_what_is_durable() -> None:
    commit = made(Ledger(AppendRefused(TooLarge("more than the topic takes"))))
    for _ in range(4):
        submit(commit, 3)
    await commit.append_all()
    assert (commit.mark.position, commit.next_position, commit.next_append) == (0, 13, 1)


async def test_what_no_append_had_begun_when_the_ledger_ended_is_not_in_doubt() -> None:
    """An append of three was refused before; the waiting one would be its first."""
    commit = made(Ledger(LedgerFull("no space left on device")))
    submit(commit, 3)
    await commit.append_all()
    waiting = asyncio.create_task(commit.durable(submit(commit)))
    await run_ready_tasks()
    commit.write_end(Event.ENDED, LedgerDown("its server is away; nothing was written"))
    with pytest.raises(LedgerDown, match="nothing was written"):
        await waiting


async def test_of_several_ends_the_first_counts_and_is_reported_once() -> None:
    commit, told = made(Ledger()), list[OncegateError]()
    commit.when_ended = lambda ending: told.append(ending.error)
    first = LedgerDown("the first")
    for error in (first, LedgerDown("a later one")):
        commit.write_end(Event.UNKNOWN, error)
    commit.write_end(Event.ENDED, LedgerDown("the last one"))
    assert (commit.ending(), told) == ((Event.UNKNOWN, first), [first])
    with pytest.raises(LedgerDown, match="the first"):
        commit.check()


async def test_an_append_that_ends_after_the_ledger_was_given_up_answers_no_caller() -> None:
    ledger = Ledger()
    commit = made(ledger)
    ledger.gate.clear()
    waiting = asyncio.create_task(commit.durable(submit(commit)))
    running = asyncio.create_task(commit.run())
    await run_ready_tasks()
    commit.write_end(Event.ENDED, LedgerDown("its server is away"))
    ledger.gate.set()
    await running
    with pytest.raises(LedgerDown, match="whether this was written is unknown"):
        await waiting
    with pytest.raises(LedgerDown):
        await commit.durable(1)


@pytest.mark.parametrize("end", ["durable", "ended beside", "refused", "lost"])
async def test_who_has_gone_away_meanwhile_keeps_the_end_from_no_other(end: str) -> None:
    refusals = {"refused": LedgerFull("no space left on device"), "lost": OSError(5, "Input/output error")}
    ledger = Ledger(*([refusals[end]] if end in refusals else []))
    commit = made(ledger)
    ledger.gate.clear()
    waiting = [asyncio.create_task(commit.durable(submit(commit))) for _ in range(3)]
    await run_ready_tasks()
    appending = asyncio.create_task(commit.append_all())
    await run_ready_tasks()
    waiting[1].cancel()
    await run_ready_tasks()
    if end == "ended beside":
        commit.write_end(Event.ENDED, LedgerDown("its server is away"))
    ledger.gate.set()
    async with asyncio.timeout(30):
        await appending
        ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(ends[1], asyncio.CancelledError)
    kind = {"durable": type(None), "refused": LedgerFull}.get(end, LedgerDown)
    assert [type(one) for one in ends[::2]] == [kind, kind]


def _outcome(error: BaseException | None) -> AppendOutcome:
    if error is None:
        return AppendOutcome.DURABLE
    return AppendOutcome.UNKNOWN if "unknown" in str(error) else AppendOutcome.NOT_WRITTEN


@pytest.mark.parametrize("event", [*BY_APPENDS, *BESIDE_APPENDS], ids=lambda event: event.name)
async def test_callers_in_flight_and_waiting_get_what_the_table_has_for_each_end(event: Event) -> None:
    errors: dict[Event, Exception] = {
        Event.UNKNOWN: LedgerDown("whether this was written is unknown"),
        Event.FAILED: ZeroDivisionError("a bug"),
        Event.FENCED: LedgerFenced("another gateway owns it; nothing was written"),
        Event.DAMAGED: LedgerDamaged("a frame is missing; whether this was written is unknown"),
        Event.ENDED: LedgerDown("its witness cannot be synced; nothing was written"),
        Event.FENCED_BESIDE: LedgerFenced("another gateway owns it; nothing was written"),
        Event.DAMAGED_BESIDE: LedgerDamaged("a frame is missing; nothing was written"),
    }
    error, is_beside = errors[event], event in BESIDE_APPENDS
    ledger = Ledger(*([] if is_beside else [error]))
    commit, ends = made(ledger), list[Event]()
    commit.when_ended = lambda ending: ends.append(ending.event)
    ledger.gate.clear()
    in_flight = asyncio.create_task(commit.durable(submit(commit)))
    running = asyncio.create_task(commit.run())
    await run_ready_tasks()
    waiting = asyncio.create_task(commit.durable(submit(commit)))
    await run_ready_tasks()
    if is_beside:
        commit.write_end(end_of(error, beside=True), error)  # type: ignore[arg-type]
    ledger.gate.set()
    async with asyncio.timeout(30):
        await running
        outcomes = await asyncio.gather(in_flight, waiting, return_exceptions=True)
    expected = ENDS[event].effect
    assert (ends, [*map(_outcome, outcomes)]) == ([event], [expected.in_flight, expected.waiting])
    # A second request for the outcome gets the same one.
    later = await asyncio.gather(commit.durable(1), commit.durable(2), return_exceptions=True)
    assert [*map(_outcome, later)] == [expected.in_flight, expected.waiting]
