"""Runs work to completion even if its caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uncancelled(work: Coroutine[Any, Any, T]) -> T:
    """Awaits `work` and returns its result or raises its error; cancelling the caller does not cancel it."""
    task = asyncio.create_task(work)
    task.add_done_callback(look_at_the_error)
    return await asyncio.shield(task)


def look_at_the_error(task: "asyncio.Task[Any]") -> None:
    """Retrieves a task's error, so that asyncio does not log it when a cancelled caller never awaits it."""
    if not task.cancelled():
        task.exception()
