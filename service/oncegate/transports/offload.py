"""Moves work on large input off the loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

# Reading a body above this takes longer than handing it to a thread does.
OFFLOAD_BYTES = 256 << 10

T = TypeVar("T")


async def offload(size_bytes: int, work: Callable[..., T], *arguments: object) -> T:
    """Runs `work(*arguments)`, in a thread where its input is large, so that renewals do not wait for it."""
    if size_bytes < OFFLOAD_BYTES:
        return work(*arguments)
    return await asyncio.to_thread(work, *arguments)
