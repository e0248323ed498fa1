"""Defines spans of traces as the engine and the ledgers need them, and tells which one the running task is part of.

A span is current only while a door answers a request that is traced and sampled; else `current_span` costs one look-up,
and nothing else is done. What crosses processes is the W3C's trace context (https://www.w3.org/TR/trace-context/).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Protocol

# Named as OpenTelemetry's semantic conventions do, our own `oncegate.…`; never an id, a payload or a token.
Attributes = Mapping[str, str | int | bool]


class TraceSpan(Protocol):
    """One part of a trace that is recorded. After its end `link` and `note` have no effect. Nothing here raises."""

    @property
    def ids(self) -> tuple[str, str]:
        """Returns its trace's id and its own: 32 and 16 hexadecimal digits."""

    def child(self, name: str, attributes: Attributes) -> AbstractContextManager["TraceSpan"]:
        """Records a part of this part, which ends with the block; an exception that leaves it is noted by its type."""

    def link(self, other: "TraceSpan") -> None:
        """Says that another span belongs to this one too, of which it is no part."""

    def note(self, attributes: Attributes, name: str | None = None) -> None:
        """Adds attributes, and gives it another name. `error.type` among them: it failed."""


# What becomes of spans: `sent`; `failed`, an export failed; `queue_full`, they came faster than they were sent.
SPAN_OUTCOMES = ("sent", "failed", "queue_full")


class Tracer(Protocol):
    """Begins spans for requests."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Counts what became of the spans of all exporters, by `SPAN_OUTCOMES`."""

    def request(
        self, name: str, headers: Iterable[tuple[str | bytes, str | bytes]], attributes: Attributes
    ) -> AbstractContextManager[TraceSpan | None]:
        """Records a request below its caller's span, which the headers name; None: it is not sampled."""


class _Cell:
    """Holds what is current in a task and in those that it starts, until its block ends."""

    __slots__ = ("span",)

    def __init__(self, span: TraceSpan) -> None:
        self.span: TraceSpan | None = span


_CELL: ContextVar[_Cell | None] = ContextVar("oncegate_span", default=None)
_NOTHING = nullcontext()


def current_span() -> TraceSpan | None:
    """Returns the span that the running task is part of; None: it is traced by nobody, or that span is over."""
    cell = _CELL.get()
    return None if cell is None else cell.span


@contextmanager
def current_as(span: TraceSpan) -> Iterator[None]:
    """Makes `span` current while the block runs, also in tasks and threads that start there."""
    cell = _Cell(span)
    token = _CELL.set(cell)
    try:
        yield
    finally:
        # A task that lives on, as an owner's does which a request made, is no part of that request.
        cell.span = None
        _CELL.reset(token)


def child(name: str, attributes: Attributes) -> AbstractContextManager[TraceSpan | None]:
    """Records a part of what is current, and makes it current; does nothing where nothing is."""
    parent = current_span()
    return _NOTHING if parent is None else _current_child(parent, name, attributes)


@contextmanager
def _current_child(parent: TraceSpan, name: str, attributes: Attributes) -> Iterator[TraceSpan]:
    with parent.child(name, attributes) as span, current_as(span):
        yield span
