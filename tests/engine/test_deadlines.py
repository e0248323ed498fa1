"""Deadlines apply before a decision and never after it; a disconnected caller affects no other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from oncegate.core.claims import ClaimState, Verb
from oncegate.core.errors import DeadlinePassed, NotFound
from oncegate.engine.deadline import Deadline
from oncegate.testing import FakeClock
from tests.support.index.claim_index import contents
from tests.support.memory_gateway import Served, rows_of, run_ready_tasks, serving, verdicts_of, winner


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


def test_a_deadline_passes_when_its_time_is_up_and_not_before() -> None:
    clock = FakeClock()
    deadline = Deadline(clock, 100)
    clock.advance(99)
    deadline.check()
    assert deadline.left_ms == 1
    clock.advance(1)
    with pytest.raises(DeadlinePassed, match="nothing was written"):
        deadline.check()


def test_without_a_timeout_it_never_passes() -> None:
    clock = FakeClock()
    deadline = Deadline(clock)
    clock.advance(10**12)
    deadline.check()
    assert deadline.left_ms is None


def test_a_stepped_wall_clock_moves_no_deadline() -> None:
    clock = FakeClock()
    deadline = Deadline(clock, 100)
    clock.step_wall_ms(10**9)
    deadline.check()


async def waiting(stopped: asyncio.Event) -> None:
    """Waits forever, and sets `stopped` when it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        stopped.set()


async def test_what_only_reads_is_stopped_when_its_time_is_up_and_answers_and_fails_as_it_is_before() -> None:
    clock, stopped = FakeClock(), asyncio.Event()

    async def told(answer: int) -> int:
        if not answer:
            raise NotFound("there is none")
        return answer

    reading = asyncio.create_task(Deadline(clock, 100).reading(waiting(stopped)))
    await run_ready_tasks()
    clock.advance(99)
    await run_ready_tasks()
    assert not reading.done()
    clock.advance(1)
    with pytest.raises(DeadlinePassed, match="nothing was changed"):
        await reading
    await run_ready_tasks()
    assert stopped.is_set()
    for deadline in (Deadline(clock), Deadline(clock, 100)):
        assert await deadline.reading(told(7)) == 7
        with pytest.raises(NotFound):
            await deadline.reading(told(0))
    assert clock.sleepers == 0


async def test_a_reader_that_goes_away_takes_its_reading_with_it() -> None:
    clock, stopped = FakeClock(), asyncio.Event()

    reading = asyncio.create_task(Deadline(clock, 100).reading(waiting(stopped)))
    await run_ready_tasks()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await run_ready_tasks()
    assert (stopped.is_set(), clock.sleepers) == (True, 0)


Late = Callable[[Served, Any], Any]
ASKED_TOO_LATE: dict[str, Late] = {
    "claim": lambda served, held: served.claim("b", token=2, timeout_ms=0),
    "renew": lambda served, held: served.settle(Verb.RENEW, held, timeout_ms=0),
    "complete": lambda served, held: served.settle(Verb.COMPLETE, held, timeout_ms=0),
    "release": lambda served, held: served.settle(Verb.RELEASE, held, timeout_ms=0),
    "stage": lambda served, held: served.stage(rows_of(1), timeout_ms=0),
    "commit": lambda served, held: served.commit(timeout_ms=0),
    "produce": lambda served, held: served.produce(rows_of(1), timeout_ms=0),
}


@pytest.mark.parametrize("asked", ASKED_TOO_LATE.values(), ids=ASKED_TOO_LATE)
async def test_late_requests_have_no_effect(served: Served, asked: Late) -> None:
    claimed = await served.claim("a")
    before, counters = len(served.disk.appends), served.shard.counters()
    with pytest.raises(DeadlinePassed):
        await asked(served, claimed.claim)
    assert (len(served.disk.appends), served.shard.counters()) == (before, counters)
    assert verdicts_of(await served.claim("b", token=3)) == ["GRANTED"]


async def test_a_claim_decided_in_time_is_answered_however_long_the_disk_takes(served: Served) -> None:
    served.disk.hold()
    claim = await served.begin(served.claim("a", timeout_ms=100))
    served.clock.advance(10_000)
    await run_ready_tasks()
    assert not claim.done()
    await served.disk.release()
    assert verdicts_of(claim.result()) == ["GRANTED"]


async def test_a_commit_decided_in_time_is_answered_however_long_the_disk_takes(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1)))
    served.disk.hold()
    commit = await served.begin(served.commit(staged, timeout_ms=100))
    served.clock.advance(10_000)
    await served.disk.release()
    assert commit.result().outcome == "COMMITTED"


async def test_a_caller_that_goes_away_leaves_its_entry(served: Served) -> None:
    served.disk.hold()
    gone = await served.begin(served.claim("a"))
    neighbour = await served.begin(served.claim("b", token=2))
    gone.cancel()
    await run_ready_tasks()
    await served.disk.release()
    assert gone.cancelled()
    assert verdicts_of(neighbour.result()) == ["GRANTED"]
    assert verdicts_of(await served.claim("a", token=3)) == ["BUSY"]
    assert verdicts_of(await served.claim("a")) == ["GRANTED"], "the same attempt finds its claim again"


async def test_a_commit_whose_caller_goes_away_is_committed(served: Served) -> None:
    staged = winner(await served.stage(rows_of(1, 2)))
    served.disk.hold()
    gone = await served.begin(served.commit(staged, nonce=4))
    gone.cancel()
    await served.disk.release()
    assert await served.read() == [1, 2]
    assert (await served.commit(staged, nonce=4)).outcome == "COMMITTED"


async def test_a_completion_whose_caller_goes_away_is_done(served: Served) -> None:
    claimed = await served.claim("a")
    served.disk.hold()
    gone = await served.begin(served.settle(Verb.COMPLETE, claimed.claim))
    gone.cancel()
    await served.disk.release()
    assert verdicts_of(await served.claim("a", token=2)) == ["DUPLICATE"]
    assert (await served.settle(Verb.COMPLETE, claimed.claim)).state is ClaimState.DONE


async def test_a_caller_that_disconnects_before_a_refusal_harms_no_other(served: Served) -> None:
    served.disk.hold()
    gone = await served.begin(served.claim("a"))
    gone.cancel()
    served.disk.faults = ["full"]
    await served.disk.release()
    assert served.shard.counters()["ids"] == 0
    assert contents(served.shard.journal.index.claims) == {}
