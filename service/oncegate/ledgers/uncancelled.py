"""Runs work that is finished whatever becomes of its caller."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Waits for `work`, and returns or raises what it does; a caller that is cancelled does not stop it."""
    task = asyncio.create_task(work)
    task.add_done_callback(look_at_the_error)
    return await asyncio.shield(task)


def look_at_the_error(task: "asyncio.Task[Any]") -> None:
    """A caller that was cancelled never asks for it."""
    if not task.cancelled():
        task.exception()
