"""Advances a walk's time by its steps: a loop with a manual clock, and pauses that end in a step."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from oncegate.testing.clock import TurnedLoop

if TYPE_CHECKING:
    from tests.model.kafka.world import Process

# The process of the current task.
current: ContextVar["Process"] = ContextVar("current")


class Loop(TurnedLoop):
    """Runs thread calls at once."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class Numbers:
    """Replaces the module `os`: random numbers repeat with the walk's seed."""

    @staticmethod
    def urandom(size: int) -> bytes:
        return current.get().world.number().to_bytes(size, "big")


async def sleep_s(duration_s: float) -> None:
    """Replaces `clock.sleep_s`: a sleeping process wakes from it later."""
    process = current.get()
    await process.world.waits(process, "", asyncio.get_running_loop().time() + duration_s)
