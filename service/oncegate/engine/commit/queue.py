"""Queues changes until an append takes them, and answers until their position is durable.

A group is everything queued, up to the size of one append. When the ledger refuses part of a group, its changes stay in
the index and return to the front of the queue. They are appended in smaller groups: up to the first output that the
ledger named, else the first half. A change that is refused alone is the culprit; those before it are durable by then.
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

# Limit of one append: it keeps a frame far below its 32-bit length, and a group below a second of disk time.
GROUP_BYTES_MAX = 64 << 20


@dataclass(slots=True)
class Change:
    """The result of one decision: its entries, its outputs, and the functions that undo or finalize it in the index.

    submitter: the task that waits for it; None if several tasks or none wait.
    """

    entries: Sequence[bytes]
    outputs: Sequence[OutputChange]
    undo: Callable[[], None]
    settle: Callable[[], None]
    submitter: "asyncio.Task[object] | None" = None

    @property
    def size_bytes(self) -> int:
        """The bytes of the entries, of the data of new outputs, and of staged outputs that this change sends."""
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
    """The changes that wait for an append, in the order in which the index applied them.

    After `take_group`, the caller reports how the append ended with `taken` or `refused`, or calls `take_all` to undo
    the rest.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        # `_suspects`: length of the prefix that contains the rejected change; `_next`: how much of it is appended next.
        self._suspects = 0
        self._next = 0

    @property
    def fits_one_group(self) -> bool:
        """Returns whether one append may hold everything that is queued."""
        return sum(change.size_bytes for change in self.changes) <= GROUP_BYTES_MAX and not self._suspects

    def take_all(self) -> list[Change]:
        """Empties the queue, ends any search for a rejected change, and returns the queued changes."""
        self._suspects = self._next = 0
        return self._take(len(self.changes))

    def take_group(self) -> list[Change]:
        """Removes and returns the next group, of at least one change if any is queued."""
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
        """Queues a refused group again, at the front, and begins the search for the rejected change.

        group: more than one change.
        """
        self.changes = [*group, *self.changes]
        self._suspects = len(group)
        ends = accumulate(len(change.outputs) for change in group)
        named = [at for at, end in enumerate(ends) if error.first_output is not None and error.first_output < end]
        self._next = max(1, named[0] if named else len(group) // 2)

    def taken(self, changes: int) -> None:
        """Records that the first `changes` changes of the queue are durable; the rejected change is among the
        others."""
        self._suspects = max(0, self._suspects - changes)
        self._next = max(1, self._suspects // 2)


@dataclass(slots=True)
class _Waiter:
    """An answer that waits until the ledger position `position` is durable. task: awaits it. span: of its request, if
    it is traced."""

    position: int
    future: asyncio.Future[None]
    task: asyncio.Task[Any] | None
    span: TraceSpan | None


class Waiters:
    """The futures of waiting answers, by the position that each waits for. Futures that are already done are skipped.

    An append serves many requests, but a span has one parent: the span of a group commit is a child of the first
    traced request that waits for it, and is linked with all of the traced ones, both ways.

    traced: the number of waiters whose request is traced.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self.traced = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, position: int, future: "asyncio.Future[None]", span: TraceSpan | None) -> None:
        self._waiting.append(_Waiter(position, future, asyncio.current_task(), span))
        self.traced += span is not None

    def group_span(self, last: int, changes: int, entries: int) -> AbstractContextManager[None]:
        """Records a span for the group commit up to position `last` while the block runs, if a traced request waits for
        it."""
        traced = (waiter.span for waiter in self._waiting if waiter.span is not None and waiter.position <= last)
        first = next(traced, None)
        return nullcontext() if first is None else _group_commit(first, changes, entries)

    def release(self, position: int) -> None:
        """Resolves the futures that wait for `position` or an earlier position."""
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
        """Fails the futures that wait for `position` or an earlier position."""
        for waiter in self._waiting:
            if waiter.position <= position and not waiter.future.done():
                waiter.future.set_exception(again(error))

    def fail(
        self,
        error: OncegateError,
        culprit: "asyncio.Task[Any] | None" = None,
        refusal: OncegateError | None = None,
    ) -> None:
        """Fails all futures with `error`, except that futures of the task `culprit` fail with `refusal`."""
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
