"""Offsets of rows in topics elsewhere: returned by the first write, and read from the ledger for a repeat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncegate.engine.commit.places import UNASKED_MS
from oncegate.engine.deadline import Deadline
from oncegate.engine.requests import ProduceRequest
from tests.support.located import ids_of, places
from tests.support.memory_gateway import (
    Served,
    id16,
    rows_of,
    run_ready_tasks,
    serving,
    verdicts_of,
    wait_until,
    winner,
)
from tests.support.sending import SendingLedgers

Place = tuple[str, int, int]
# The first request's rows, in order: three partitions whose offsets begin at 0, 100 and 200.
FIRST: list[Place] = [("topic", 0, 0), ("topic", 1, 100), ("topic", 2, 200), ("topic", 0, 1)]


@asynccontextmanager
async def gateway(ledgers: SendingLedgers, **limits: Any) -> AsyncIterator[Served]:
    async with serving(ledgers, **limits) as served:
        yield served


@pytest.fixture
def ledgers() -> SendingLedgers:
    return SendingLedgers()


@pytest.fixture
async def served(ledgers: SendingLedgers) -> AsyncIterator[Served]:
    async with gateway(ledgers) as served:
        yield served


async def produce(served: Served, *numbers: int, token: int = 1, locate: bool = True, **more: Any) -> Any:
    ids = ids_of(served, numbers)
    ask = ProduceRequest("topic", id16(token), 1, rows_of(*numbers), ids, locate=locate)
    return await served.namespace.records.produce(ask, more.get("deadline", served.deadline()))


def ranges(told: Any) -> list[tuple[str, int, int, int]]:
    return [tuple(one) for one in told]


ALL = [("topic", 0, 0, 2), ("topic", 1, 100, 1), ("topic", 2, 200, 1)]


async def test_the_first_answer_and_the_retry_s_return_the_same_offsets(served: Served) -> None:
    first = await produce(served, 1, 2, 3, 4, locate=False)
    await produce(served, 9, token=2)
    again = await produce(served, 1, 2, 3, 4, locate=False)
    assert (ranges(first.spans), first.before) == (ALL, ())
    assert (again.rows, again.spans, ranges(again.before)) == (0, (), ALL)


async def test_each_row_is_located_for_its_writer_and_for_later_callers(served: Served) -> None:
    first = await produce(served, 1, 2, 3, 4)
    own, other = await produce(served, 1, 2, 3, 4), await produce(served, 4, 2, 5, token=2)
    assert places(first) == places(own) == FIRST
    assert (verdicts_of(other), places(other)) == (
        ["DUPLICATE", "DUPLICATE", "GRANTED"],
        [FIRST[3], FIRST[1], ("topic", 0, 3)],
    )


async def test_an_id_alone_is_where_its_row_went_and_not_where_it_was_counted(served: Served) -> None:
    await produce(served, 1, 2)
    await produce(served, 3, token=2)
    assert places(await produce(served, 3, token=4)) == [("topic", 0, 2)]


async def test_places_outlive_a_restart(ledgers: SendingLedgers) -> None:
    async with gateway(ledgers) as served:
        await produce(served, 1, 2, 3, 4)
    async with gateway(ledgers) as served:
        again = await produce(served, 1, 2, 3, 4)
        assert (ranges(again.before), places(again)) == (ALL, FIRST)


@pytest.mark.parametrize("why", ["a ledger from before", "a compaction"])
async def test_offsets_missing_in_the_ledger_are_unknown_and_never_guessed(ledgers: SendingLedgers, why: str) -> None:
    async with gateway(ledgers, collect_bytes=1) as served:
        await produce(served, 1, 2, 3, 4)
        await produce(served, 7, token=3)
        if why == "a compaction":
            served.shard.scheduler.compact()
            await wait_until(lambda: not served.shard.snapshotter.compacting)
            assert "compaction" in served.events.names()
    ledgers.partitions.is_kept = why != "a ledger from before"
    async with gateway(ledgers) as served:
        for numbers, token in (((1, 2, 3, 4), 1), ((7,), 3)):
            again = await produce(served, *numbers, token=token)
            assert (again.before, places(again)) == ((), [None] * len(numbers))


@pytest.mark.parametrize(("locate", "waits_ms"), [(True, 30_000), (False, UNASKED_MS)])
async def test_a_read_that_takes_too_long_leaves_places_unknown(
    ledgers: SendingLedgers, locate: bool, waits_ms: int
) -> None:
    async with gateway(ledgers) as served:
        await produce(served, 1, 2, 3, 4)
    async with gateway(ledgers) as served:
        ledgers.partitions.gate.clear()
        asking = asyncio.create_task(
            produce(served, 1, 2, 3, 4, locate=locate, deadline=Deadline(served.clock, 30_000))
        )
        await run_ready_tasks()
        served.clock.advance(waits_ms - 1)
        await run_ready_tasks()
        assert not asking.done()
        served.clock.advance(1)
        again = await asking
        assert (verdicts_of(again), again.before) == (["DUPLICATE+OWN"] * 4, ())
        assert not locate or places(again) == [None] * 4
        ledgers.partitions.gate.set()
        assert ranges((await produce(served, 1, 2, 3, 4)).before) == ALL


async def test_a_commit_and_its_repeats_return_the_offsets_of_the_batch(ledgers: SendingLedgers) -> None:
    async with gateway(ledgers) as served:
        task = winner(await served.stage(rows_of(1, 2, 3, 4), token=1), 1)
        first, again = await served.commit(task), await served.commit(task)
    async with gateway(ledgers) as served:
        later = await served.commit(task)
    assert [ranges(one.spans) for one in (first, again, later)] == [ALL] * 3


async def test_an_explanation_names_the_row_s_own_place_or_none(ledgers: SendingLedgers) -> None:
    async with gateway(ledgers) as served:
        await produce(served, 1, 2, 3, 4)
        told = [await served.shard.claims.explain(one.tobytes()) for one in ids_of(served, (1, 2, 3, 4))]
        assert [one.written_at for one in told] == FIRST
    ledgers.partitions.is_kept = False
    async with gateway(ledgers) as served:
        (one,) = ids_of(served, (1,))
        assert (await served.shard.claims.explain(one.tobytes())).written_at == ("topic", None, None)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_repeat_of_rows_with_an_offset_missing_at_a_broker_returns_none(
    ledgers: SendingLedgers, restarted: bool
) -> None:
    ledgers.partitions.ends[1] = -1
    async with gateway(ledgers) as served:
        first = await produce(served, 1, 2, 3, 4)
        assert (first.rows, first.spans) == (4, ())
        assert places(first) == [FIRST[0], None, *FIRST[2:]]
        again = None if restarted else await produce(served, 1, 2, 3, 4)
    if restarted:
        async with gateway(ledgers) as served:
            again = await produce(served, 1, 2, 3, 4)
    assert again is not None
    assert (again.before, places(again)) == ((), places(first))
