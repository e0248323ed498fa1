"""Records appends in the traces of the requests that wait for them: one append has many requests."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from oncegate.ports.tracing import TraceSpan, current_as, current_span


class AppendSpans:
    """Keeps the spans of requests that are traced, by the positions that their answers wait for.

    A group commit is a child of the first of them that waits for it; it and the others are linked, both ways, for a
    span has one parent.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, TraceSpan]] = []

    def wait(self, position: int, span: TraceSpan | None) -> None:
        """Notes that a request waits for `position`; None: it is not traced."""
        if span is not None:
            self._waiting.append((position, span))

    def commit(self, last: int, changes: int, entries: int) -> AbstractContextManager[None]:
        """Records a group commit up to position `last` while the block runs, if somebody who is traced waits for it."""
        if not self._waiting:
            return nullcontext()
        first = next((span for position, span in self._waiting if position <= last), None)
        return nullcontext() if first is None else _commit(first, changes, entries)

    def release(self, position: int) -> None:
        """Forgets those who waited for `position`, or one before it; links them with the commit that is recorded."""
        if not self._waiting:
            return
        commit = current_span()
        for at, span in self._waiting:
            if at <= position and commit is not None:
                commit.link(span)
                span.link(commit)
        self._waiting = [one for one in self._waiting if one[0] > position]

    def clear(self) -> None:
        """Forgets all of them: they were told why nothing was written."""
        self._waiting.clear()


@contextmanager
def _commit(first: TraceSpan, changes: int, entries: int) -> Iterator[None]:
    attributes = {"oncegate.changes": changes, "oncegate.entries": entries}
    with first.child("group commit", attributes) as span, current_as(span):
        yield
