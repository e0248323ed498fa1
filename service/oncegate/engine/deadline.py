"""Tracks the time budget of each request from its arrival."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from oncegate.core.errors import DeadlinePassed
from oncegate.ports import Clock

T = TypeVar("T")


class Deadline:
    """The time until which a caller waits for its answer; without `timeout_ms` there is no limit.

    The deadline is checked before a decision and never after it, so a decided request is always answered. Reads are
    cancelled at the deadline.

    waited_ms: how long the request, its body received, has waited for its namespace's turn.
    on_decision: called once, by the first `check` or `decided`.
    """

    def __init__(self, clock: Clock, timeout_ms: int | None = None) -> None:
        self._clock = clock
        self.waited_ms = 0
        self.on_decision: Callable[[], None] | None = None
        self._end_ms = None if timeout_ms is None else clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> int | None:
        """The milliseconds left, negative once the deadline has passed; None if there is no deadline."""
        return None if self._end_ms is None else self._end_ms - self._clock.monotonic_ms()

    def at_most(self, ms: int) -> "Deadline":
        """Returns a deadline that passes in `ms` milliseconds, or with this deadline if that is earlier."""
        left_ms = self.left_ms
        return Deadline(self._clock, ms if left_ms is None else min(ms, left_ms))

    def check(self) -> None:
        """Raises DeadlinePassed if the deadline has passed: nothing was written. To be called right before the
        decision."""
        if self.on_decision is not None:
            self.decided()
        left_ms = None if self._end_ms is None else self.left_ms
        if left_ms is not None and left_ms <= 0:
            raise DeadlinePassed(f"the deadline passed {-left_ms} ms before the decision; nothing was written")

    def decided(self) -> None:
        """Calls `on_decision` the first time; later calls have no effect."""
        if (on_decision := self.on_decision) is not None:
            self.on_decision = None
            on_decision()

    async def reading(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits work that only reads, and cancels it at the deadline.

        Raises DeadlinePassed: nothing was changed; or as `work`. A thread that reads for `work` finishes its current
        step.
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
                task.exception()  # so that asyncio does not log it as never retrieved
