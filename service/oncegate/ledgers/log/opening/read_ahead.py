"""Reads and checks entries in a thread of its own, some batches ahead of whoever takes them in on another processor."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

T = TypeVar("T")
# Handed over at once, so that handing over costs nothing beside reading; and how many such are read ahead at most.
BATCH_BYTES = 4 << 20
BATCHES_AHEAD = 4


async def read_ahead(items: Generator[T, None, None], size_bytes: Callable[[T], int]) -> AsyncGenerator[list[T], None]:
    """Yields the same items in the same order, in batches of `BATCH_BYTES`, taken from `items` by another thread.

    What `items` raises is raised here, after the items before it. The thread has ended, and `items` is closed, when
    this has ended: by itself, by an error, or by `aclose`.
    """
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="reading ahead")
    batches = _batches(items, size_bytes)
    ahead = deque(loop.run_in_executor(thread, next, batches, None) for _ in range(BATCHES_AHEAD))
    try:
        while (batch := await ahead.popleft()) is not None:
            ahead.append(loop.run_in_executor(thread, next, batches, None))
            yield batch
    finally:
        for waiting in ahead:
            waiting.cancel()
        try:
            # Behind the batch that the thread may be at.
            await loop.run_in_executor(thread, batches.close)
        finally:
            thread.shutdown()
            for ended in ahead:
                if not ended.cancelled():
                    ended.exception()  # nobody asks for it any more


def _batches(items: Generator[T, None, None], size_bytes: Callable[[T], int]) -> Generator[list[T], None, None]:
    """Lists of some megabytes, none empty; what came before an error comes before it."""
    batch: list[T] = []
    held = 0
    with closing(items):
        try:
            for item in items:
                batch.append(item)
                held += size_bytes(item)
                if held >= BATCH_BYTES:
                    yield batch
                    batch, held = [], 0
        except Exception:
            if batch:
                yield batch
            raise
        if batch:
            yield batch
