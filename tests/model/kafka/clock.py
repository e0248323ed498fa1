"""Advances a walk's time by its steps: a loop with a manual clock, and pauses that end in a step."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.model.kafka.world import Process

# The process of the current task.
current: ContextVar["Process"] = ContextVar("current")


class Loop(asyncio.SelectorEventLoop):
    """A loop that never waits: timers are due when `now_s` is advanced, and thread calls run at once."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class Time:
    """Replaces the module `time` with the loop's clock."""

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    @staticmethod
    def time_ns() -> int:
        return 0


class Numbers:
    """Replaces the module `os`: random numbers repeat with the walk's seed."""

    @staticmethod
    def urandom(size: int) -> bytes:
        return current.get().world.number().to_bytes(size, "big")


async def pause(seconds: float) -> None:
    """Replaces `pause.pause`: a sleeping process wakes from it later."""
    process = current.get()
    await process.world.waits(process, "", asyncio.get_running_loop().time() + seconds)
