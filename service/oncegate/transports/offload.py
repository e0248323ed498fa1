"""Moves work on large input off the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

# Reading a larger body takes longer than starting a thread.
OFFLOAD_BYTES = 256 << 10

T = TypeVar("T")


async def offload(size_bytes: int, work: Callable[..., T], *arguments: object) -> T:
    """Runs `work(*arguments)`; uses a thread for large input, so that lease renewals are not delayed."""
    if size_bytes < OFFLOAD_BYTES:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)
