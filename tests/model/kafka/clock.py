"""Lets a walk's time pass by its steps: a loop whose clock is turned by hand, and pauses that end in a step."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.model.kafka.world import Process

# Whose task this is.
current: ContextVar["Process"] = ContextVar("current")


class Loop(asyncio.SelectorEventLoop):
    """Waits for no time: timers are due as `now_s` is moved on; what goes into a thread is done at once."""

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
    """In place of the module `time`: what it tells is the loop's."""

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    @staticmethod
    def time_ns() -> int:
        return 0


class Numbers:
    """In place of the module `os`: what it draws is the same in each walk of a seed."""

    @staticmethod
    def urandom(size: int) -> bytes:
        return current.get().world.number().to_bytes(size, "big")


async def pause(seconds: float) -> None:
    """In place of `pause.pause`: a process that sleeps wakes from it later."""
    process = current.get()
    await process.world.waits(process, "", asyncio.get_running_loop().time() + seconds)
