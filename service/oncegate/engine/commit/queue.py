"""Queues changes until an append takes them, and answers until their position is durable.

A group is all that waits, as much of it as one append may hold. Where the ledger refuses a part of one, its changes
keep their places in the index, are first in the queue again and are appended in smaller groups: up to the first that
the ledger names, else the first half. One that is refused alone is the one; what came before it is durable by then.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from oncegate.core.errors import OncegateError
from oncegate.engine.failures import again
from oncegate.ports import AppendRefused, OutputChange, SendRanges, WriteRange
from oncegate.ports.tracing import TraceSpan, current_as, current_span

# One append holds at most this much: a frame stays far below its 32-bit length, a group below a second of disk.
GROUP_BYTES_MAX = 64 << 20


@dataclass(slots=True)
class Change:
    """Holds what one decision wrote: its entries, its outputs, and how the index takes it back or settles it.

    submitter: the task that waits for it; None: several do, or nobody.
    """

    entries: Sequence[bytes]
    outputs: Sequence[OutputChange]
    undo: Callable[[], None]
    settle: Callable[[], None]
    submitter: "asyncio.Task[object] | None" = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries, of the data of new outputs, and of what waited and is sent."""
        outputs = sum(map(_bytes_of, self.outputs)) if self.outputs else 0
        return sum(map(len, self.entries)) + outputs


def _bytes_of(change: OutputChange) -> int:
    match change:
        case WriteRange():
            return len(change.data)
        case SendRanges():
            return change.waiting_bytes
        case _:
            return 0


class ChangeQueue:
    """Holds the changes that wait for an append, in the order in which the index applied them.

    changes: those; `put` adds one. Whoever takes a group reports how its append ended: by `taken`, `refused`, or
    `take_all` to undo what is left.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        # So many of the first hold one that was refused and is not known yet; so many of them are appended next.
        self._suspects = 0
        self._next = 0

    @property
    def fits_one_group(self) -> bool:
        """Returns whether one append may hold all that waits for one."""
        return sum(change.size_bytes for change in self.changes) <= GROUP_BYTES_MAX and not self._suspects

    def take_all(self) -> list[Change]:
        """Empties the queue, and forgets that a change is sought; returns what waited."""
        self._suspects = self._next = 0
        return self._take(len(self.changes))

    def take_group(self) -> list[Change]:
        """Takes the next group out, at least one change of those that wait."""
        most = min(len(self.changes), self._next) if self._suspects else len(self.changes)
        if most > 1:
            size_bytes = 0
            for count, change in enumerate(self.changes[:most]):
                size_bytes += change.size_bytes
                if count and size_bytes > GROUP_BYTES_MAX:
                    return self._take(count)
        return self._take(most)

    def _take(self, count: int) -> list[Change]:
        group, self.changes = self.changes[:count], self.changes[count:]
        return group

    def refused(self, group: Sequence[Change], error: AppendRefused) -> None:
        """Takes back a group of several that was refused: one of them is sought from now on."""
        self.changes = [*group, *self.changes]
        self._suspects = len(group)
        ends = accumulate(len(change.outputs) for change in group)
        named = [at for at, end in enumerate(ends) if error.first_output is not None and error.first_output < end]
        self._next = max(1, named[0] if named else len(group) // 2)

    def taken(self, changes: int) -> None:
        """Notes that the ledger took so many of the first: the one that is sought comes behind them."""
        self._suspects = max(0, self._suspects - changes)
        self._next = max(1, self._suspects // 2)


@dataclass(slots=True)
class _Waiter:
    """Holds an answer that waits for `position`; task: that awaits it; span: of its request, if it is traced."""

    position: int
    future: asyncio.Future[None]
    task: asyncio.Task[Any] | None
    span: TraceSpan | None


class Waiters:
    """Holds the futures of answers by the positions that they wait for; its length counts them.

    traced: how many of them are. Futures that are already done are skipped. One append has many requests: in traces a
    group commit is a child of the first traced request that waits for it; it and the others are linked, both ways, for
    a span has one parent.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self.traced = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, position: int, future: "asyncio.Future[None]", span: TraceSpan | None) -> None:
        """Adds one of the task that runs now; span: of its request, if it is traced."""
        self._waiting.append(_Waiter(position, future, asyncio.current_task(), span))
        self.traced += span is not None

    def group_span(self, last: int, changes: int, entries: int) -> AbstractContextManager[None]:
        """Records a group commit up to position `last` while the block runs, if a traced request waits for it."""
        traced = (waiter.span for waiter in self._waiting if waiter.span is not None and waiter.position <= last)
        first = next(traced, None)
        return nullcontext() if first is None else _group_commit(first, changes, entries)

    def release(self, position: int) -> None:
        """Lets those go on that wait for `position` or one before it: it is durable."""
        commit = current_span() if self.traced else None
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if waiter.position > position:
                self._waiting.append(waiter)
                continue
            if waiter.span is not None:
                self.traced -= 1
                if commit is not None:
                    commit.link(waiter.span)
                    waiter.span.link(commit)
            if not waiter.future.done():
                waiter.future.set_result(None)

    def fail_to(self, position: int, error: OncegateError) -> None:
        """Raises `error` in those that wait for `position` or one before it."""
        for waiter in self._waiting:
            if waiter.position <= position and not waiter.future.done():
                waiter.future.set_exception(again(error))

    def fail(
        self,
        error: OncegateError,
        culprit: "asyncio.Task[Any] | None" = None,
        refusal: OncegateError | None = None,
    ) -> None:
        """Raises `error` in all of them; in those of the task `culprit`, where that is known, `refusal` instead."""
        waiting, self._waiting, self.traced = self._waiting, [], 0
        for waiter in waiting:
            if not waiter.future.done():
                is_own = culprit is not None and waiter.task is culprit
                waiter.future.set_exception(again(refusal if refusal is not None and is_own else error))


@contextmanager
def _group_commit(first: TraceSpan, changes: int, entries: int) -> Iterator[None]:
    attributes = {"oncegate.changes": changes, "oncegate.entries": entries}
    with first.child("group commit", attributes) as span, current_as(span):
        yield
