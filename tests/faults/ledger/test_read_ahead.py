"""Reading ahead changes no results, and leaves no thread running."""

from collections.abc import AsyncIterator, Generator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from oncegate.ledgers.log.opening import scan as module
from oncegate.ledgers.log.opening.scan import read_ahead
from oncegate.ledgers.log.strands import Strand
from tests.support.memory_gateway import wait_until


@pytest.fixture(params=["a thread", "a strand of shared threads"])
async def thread(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Executor]:
    """Uses batches of three items, and checks that no work is left for the thread."""
    monkeypatch.setattr(module, "BATCH_BYTES", 3)
    with ThreadPoolExecutor(1) as pool:
        thread = pool if request.param == "a thread" else Strand(pool)
        yield thread
        assert pool._work_queue.empty()


class Counted(Executor):
    """Counts the calls of a thread."""

    def __init__(self, good: Executor) -> None:
        self._good, self.calls = good, 0

    def submit(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        return self._good.submit(work, *arguments, **named)


@pytest.mark.parametrize("count", [1, 2])
async def test_a_small_ledger_is_handed_over_once(count: int, thread: Executor) -> None:
    counted = Counted(thread)
    assert [batch async for batch in read_ahead(some(count), one, counted)] == [list(range(count))]
    assert counted.calls == 1


def one(item: object) -> int:
    return 1


def some(count: int) -> Generator[int, None, None]:
    yield from range(count)


def failing(count: int) -> Generator[int, None, None]:
    yield from range(count)
    raise ValueError("damaged here")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 100])
async def test_all_items_come_in_order_and_no_batch_is_empty(count: int, thread: Executor) -> None:
    batches = [batch async for batch in read_ahead(some(count), one, thread)]
    assert [item for batch in batches for item in batch] == list(range(count))
    assert all(batches)


@pytest.mark.parametrize("count", [0, 1, 3, 50])
async def test_an_error_comes_after_what_was_before_it(count: int, thread: Executor) -> None:
    seen: list[int] = []

    async def take() -> None:
        async for batch in read_ahead(failing(count), one, thread):
            seen.extend(batch)

    with pytest.raises(ValueError, match="damaged here"):
        await take()
    assert seen == list(range(count))


@pytest.mark.parametrize("taken", [0, 1, 7])
async def test_stopping_early_leaves_no_reader(taken: int, thread: Executor) -> None:
    """The source has many more items than are read ahead; it is closed too."""
    closed: list[bool] = []

    def many() -> Generator[int, None, None]:
        try:
            yield from range(10_000)
        finally:
            closed.append(True)

    batches = read_ahead(many(), one, thread)
    seen = [item for _ in range(taken) for item in await anext(batches)]
    assert seen == list(range(3 * taken))
    await batches.aclose()
    assert closed == [True] * (taken > 0)


async def test_no_more_is_read_than_some_batches_ahead(thread: Executor) -> None:
    read: list[int] = []
    batches = read_ahead((read.append(n) or n for n in range(10_000)), one, thread)
    await anext(batches)
    await wait_until(lambda: len(read) >= 3 * module.BATCHES_AHEAD)
    assert len(read) <= 3 * (module.BATCHES_AHEAD + 2)
    await batches.aclose()
