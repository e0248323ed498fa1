"""Defines trace spans for the engine and the ledgers, and finds the span of the running task.

A span is current only while a transport handles a request that is traced and sampled. Otherwise `current_span` costs
one look-up and nothing else happens. Processes exchange the W3C's trace context (https://www.w3.org/TR/trace-context/).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

# Names follow OpenTelemetry's semantic conventions, our own begin with `oncegate.`; never an id, a payload or a token.
Attributes = Mapping[str, str | int | bool]


class TraceSpan(Protocol):
    """A recorded span. After its end `link` and `note` have no effect. No method raises."""

    @property
    def ids(self) -> tuple[str, str]:
        """Returns the trace id and the span id: 32 and 16 hexadecimal digits."""

    def child(self, name: str, attributes: Attributes) -> AbstractContextManager["TraceSpan"]:
        """Records a child span until the block ends; an exception that leaves the block is recorded by type."""

    def link(self, other: "TraceSpan") -> None:
        """Links this span to a span that is not its parent."""

    def note(self, attributes: Attributes, name: str | None = None) -> None:
        """Adds attributes, and renames the span. `error.type` among the attributes marks it as failed."""


# Fates of spans: `sent`; `failed`, an export failed; `queue_full`, they were recorded faster than sent.
SPAN_OUTCOMES = ("sent", "failed", "queue_full")


class Tracer(Protocol):
    """Begins spans for requests."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Counts the spans of all exporters by outcome, `SPAN_OUTCOMES`."""

    def request(
        self, name: str, headers: Iterable[tuple[str | bytes, str | bytes]], attributes: Attributes
    ) -> AbstractContextManager[TraceSpan | None]:
        """Records a request as a child of its caller's span, which the headers name; None if the request is not
        sampled."""


class _Cell:
    """Holds the current span of a task, and of the tasks that it starts, until the span's block ends."""

    __slots__ = ("span",)

    def __init__(self, span: TraceSpan) -> None:
        self.span: TraceSpan | None = span


_CELL: ContextVar[_Cell | None] = ContextVar("oncegate_span", default=None)
_NOTHING = nullcontext()


def current_span() -> TraceSpan | None:
    """Returns the span of the running task; None if it is not traced or its span has ended."""
    cell = _CELL.get()
    return None if cell is None else cell.span


@contextmanager
def current_as(span: TraceSpan) -> Iterator[None]:
    """Makes `span` current while the block runs, also in tasks and threads started there."""
    cell = _Cell(span)
    token = _CELL.set(cell)
    try:
        yield
    finally:
        # A task that outlives the request that started it, e.g. an owner's, is not part of that request.
        cell.span = None
        _CELL.reset(token)


def child(name: str, attributes: Attributes) -> AbstractContextManager[TraceSpan | None]:
    """Records a child of the current span and makes it current; does nothing if there is none."""
    parent = current_span()
    return _NOTHING if parent is None else _current_child(parent, name, attributes)


@contextmanager
def _current_child(parent: TraceSpan, name: str, attributes: Attributes) -> Iterator[TraceSpan]:
    with parent.child(name, attributes) as span, current_as(span):
        yield span
