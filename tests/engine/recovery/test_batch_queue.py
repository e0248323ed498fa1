"""Batches from the loop reach the thread that applies them complete, in order, and with the final error."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from oncegate.core.errors import LedgerDamaged
from oncegate.engine.recovery.batch_queue import BATCHES_WAITING, BatchQueue
from oncegate.ports import Mark, Replayed
from tests.support.memory_gateway import run_ready_tasks


def batch_of(number: int) -> list[Replayed]:
    return [Replayed(number, b"entry %d" % number, Mark(bytes(16), number, bytes(8)))]


async def some(count: int, fails: bool = False) -> AsyncIterator[list[Replayed]]:
    for number in range(count):
        yield batch_of(number)
    if fails:
        raise LedgerDamaged("damaged here")


@pytest.mark.parametrize("count", [0, 1, BATCHES_WAITING, 50])
async def test_all_batches_come_in_order(count: int) -> None:
    queue = BatchQueue()
    filling = asyncio.create_task(queue.fill(some(count)))
    assert await asyncio.to_thread(list, queue) == [batch_of(number) for number in range(count)]
    await filling


async def test_an_error_comes_after_what_was_before_it() -> None:
    queue, seen = BatchQueue(), list[list[Replayed]]()

    def apply() -> None:
        for batch in queue:
            seen.append(list(batch))

    filling = asyncio.create_task(queue.fill(some(5, fails=True)))
    with pytest.raises(LedgerDamaged, match="damaged here"):
        await asyncio.to_thread(apply)
    assert seen == [batch_of(number) for number in range(5)]
    await filling


async def test_no_more_is_read_than_waits_for_the_thread() -> None:
    taken: list[int] = []

    async def read() -> AsyncIterator[list[Replayed]]:
        for number in range(100):
            taken.append(number)
            yield batch_of(number)

    queue = BatchQueue()
    filling = asyncio.create_task(queue.fill(read()))
    await run_ready_tasks()
    assert len(taken) == BATCHES_WAITING + 1
    filling.cancel()
    await asyncio.wait([filling])
    with pytest.raises(asyncio.CancelledError):
        await asyncio.to_thread(list, queue)
