"""Keeps one budget of time for a request, made where it arrives and passed down."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from oncegate.core.errors import DeadlinePassed
from oncegate.ports import Clock

T = TypeVar("T")


class Deadline:
    """Tells whether a caller still waits, in monotonic time; without `timeout_ms` it never passes.

    It is checked before a decision and never after one: what was decided is answered. What only reads it stops.
    `waited_ms`: how long the request has waited for its namespace's turn, its body being here. `on_decision`: called
    once, by the first `check` or `decided`.
    """

    def __init__(self, clock: Clock, timeout_ms: int | None = None) -> None:
        self._clock = clock
        self.waited_ms = 0
        self.on_decision: Callable[[], None] | None = None
        self._end_ms = None if timeout_ms is None else clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> int | None:
        """Milliseconds left, negative once it has passed; None: it never passes."""
        return None if self._end_ms is None else self._end_ms - self._clock.monotonic_ms()

    def at_most(self, ms: int) -> "Deadline":
        """Returns one that passes in `ms` milliseconds at the latest."""
        left_ms = self.left_ms
        return Deadline(self._clock, ms if left_ms is None else min(ms, left_ms))

    def check(self) -> None:
        """Raises DeadlinePassed when the time is up; nothing was written. To be called right before the decision."""
        if self.on_decision is not None:
            self.decided()
        left_ms = None if self._end_ms is None else self.left_ms
        if left_ms is not None and left_ms <= 0:
            raise DeadlinePassed(f"the deadline passed {-left_ms} ms before the decision; nothing was written")

    def decided(self) -> None:
        """Calls `on_decision`, unless it was called."""
        if (on_decision := self.on_decision) is not None:
            self.on_decision = None
            on_decision()

    async def reading(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits what only reads, and cancels it when the time is up: nobody waits for the answer any more.

        Raises DeadlinePassed: nothing was changed; what `work` raises. A thread that reads for it ends what it is at.
        """
        left_ms = self.left_ms
        if left_ms is None:
            return await work
        task, timer = asyncio.ensure_future(work), asyncio.ensure_future(self._clock.sleep_ms(left_ms))
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
            left_ms = self.left_ms or 0
            if left_ms <= 0:
                raise DeadlinePassed(f"the deadline passed {-left_ms} ms ago, before all was read; nothing was changed")
            return task.result()
        finally:
            timer.cancel()
            if not task.cancel() and not task.cancelled():
                task.exception()  # known, so that nobody logs it as never looked at
