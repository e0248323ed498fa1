"""Runs work that is finished whatever becomes of its caller."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def uncancelled(work: Coroutine[Any, Any, None]) -> None:
    """Waits for `work`, and raises what it does; a caller that is cancelled does not stop it."""
    task = asyncio.create_task(work)
    task.add_done_callback(_look_at_the_error)
    await asyncio.shield(task)


def _look_at_the_error(task: "asyncio.Task[None]") -> None:
    """A caller that was cancelled never asks for it."""
    if not task.cancelled():
        task.exception()
