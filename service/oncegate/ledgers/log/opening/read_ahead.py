"""Reads and checks entries in a thread of its own, some batches ahead of whoever takes them in on another processor."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Executor
from contextlib import closing
from typing import TypeVar

T = TypeVar("T")
Batch = tuple[list[T], bool]
# Handed over at once, so that handing over costs nothing beside reading; and how many such are read ahead at most.
BATCH_BYTES = 4 << 20
BATCHES_AHEAD = 4


async def read_ahead(
    items: Generator[T, None, None], size_bytes: Callable[[T], int], thread: Executor
) -> AsyncGenerator[list[T], None]:
    """Yields the same items in the same order, in batches of `BATCH_BYTES`, taken from `items` by another thread.

    What `items` raises is raised here, after the items before it. `items` is closed, and `thread` is done with it, when
    this has ended: by itself, by an error, or by `aclose`. `thread`: makes one call at a time, in order.
    """
    loop = asyncio.get_running_loop()
    batches = _batches(items, size_bytes)
    ahead: deque[asyncio.Future[Batch[T] | None]] = deque()
    try:
        # The first alone: of a small ledger it is all, and a thousand of them are opened at a start.
        ahead.append(loop.run_in_executor(thread, next, batches, None))
        while ahead and (batch := await ahead[0]) is not None:
            ahead.popleft()
            found, is_last = batch
            while not is_last and len(ahead) < BATCHES_AHEAD:
                ahead.append(loop.run_in_executor(thread, next, batches, None))
            yield found
    finally:
        if ahead:
            await _leave(ahead, batches, thread)
        else:
            batches.close()


async def _leave(
    ahead: "deque[asyncio.Future[Batch[T] | None]]", batches: Generator[Batch[T], None, None], thread: Executor
) -> None:
    """Ends a reading that others wait for no more: behind the batch that the thread may be at."""
    for waiting in ahead:
        waiting.cancel()
    try:
        await asyncio.get_running_loop().run_in_executor(thread, batches.close)
    finally:
        for ended in ahead:
            if not ended.cancelled():
                ended.exception()  # nobody asks for it any more


def _batches(items: Generator[T, None, None], size_bytes: Callable[[T], int]) -> Generator[Batch[T], None, None]:
    """Lists of some megabytes, none empty, each with whether it is the last; what is before an error comes before."""
    batch: list[T] = []
    held = 0
    with closing(items):
        try:
            for item in items:
                batch.append(item)
                held += size_bytes(item)
                if held >= BATCH_BYTES:
                    yield batch, False
                    batch, held = [], 0
        except Exception:
            if batch:
                yield batch, False
            raise
        if batch:
            yield batch, True
