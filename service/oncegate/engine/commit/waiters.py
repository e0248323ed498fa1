"""Keeps the answers that wait until a position of the ledger is durable, and tells each what became of it."""

import asyncio
from typing import Any

from oncegate.core.errors import OncegateError
from oncegate.engine.commit.append_spans import AppendSpans
from oncegate.engine.failures import again
from oncegate.ports.tracing import TraceSpan


class Waiters:
    """Holds the futures of answers by the positions that they wait for; its length counts them.

    `spans`: of their requests, those that are traced. A future that ended by itself meanwhile is left alone.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[None], asyncio.Task[Any] | None]] = []
        self.spans = AppendSpans()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, position: int, waiter: "asyncio.Future[None]", span: TraceSpan | None) -> None:
        """Keeps one more, of the task that runs now; span: of its request, if it is traced."""
        self._waiting.append((position, waiter, asyncio.current_task()))
        self.spans.wait(position, span)

    def release(self, position: int) -> None:
        """Lets those go on that wait for `position` or one before it: it is durable."""
        waiting = self._waiting
        self.spans.release(position)
        self._waiting = [one for one in waiting if one[0] > position]
        for position_awaited, waiter, _ in waiting:
            if position_awaited <= position and not waiter.done():
                waiter.set_result(None)

    def fail_to(self, position: int, error: OncegateError) -> None:
        """Tells `error` to those that wait for `position` or one before it."""
        for awaited, waiter, _ in self._waiting:
            if awaited <= position and not waiter.done():
                waiter.set_exception(again(error))

    def fail(
        self,
        error: OncegateError,
        culprit: "asyncio.Task[Any] | None" = None,
        refusal: OncegateError | None = None,
    ) -> None:
        """Tells all of them `error`; those of the task `culprit`, where that is known, are told `refusal` instead."""
        waiting, self._waiting = self._waiting, []
        self.spans.clear()
        for _, waiter, task in waiting:
            if not waiter.done():
                is_own = culprit is not None and task is culprit
                waiter.set_exception(again(refusal if refusal is not None and is_own else error))
