"""Begins a span for each request that a door takes, and tells the trace id by which its errors are found in the log."""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from oncegate.core.errors import OncegateError
from oncegate.ports.tracing import Attributes, Tracer, TraceSpan, current_as, current_span
from oncegate.transports.outcomes import OutcomeKind, outcome_of

Fields = Iterable[tuple[str | bytes, str | bytes]]
# W3C Trace Context: version, trace id, the caller's span, flags. A trace id of zeros is none.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_LONGEST = 256
# What the gateway could not do, of which the others are the caller's to mend.
_FAILURES = frozenset({OutcomeKind.UNAVAILABLE, OutcomeKind.STORAGE_FULL, OutcomeKind.DEADLINE, OutcomeKind.INTERNAL})


@contextmanager
def request_span(tracer: Tracer, name: str, headers: Fields, attributes: Attributes) -> Iterator[TraceSpan | None]:
    """Records a request and makes its span current; None: it is not sampled."""
    with tracer.request(name, headers, attributes) as span:
        if span is None:
            yield None
        else:
            with current_as(span):
                yield span


def note_refusal(error: OncegateError) -> None:
    """Says in the request's span by which code it was refused; its text stays out, for it may quote what was sent."""
    if (span := current_span()) is not None:
        failed = outcome_of(type(error)).kind in _FAILURES
        span.note({"oncegate.code": error.code} | ({"error.type": error.code} if failed else {}))


def trace_id_of(headers: Fields) -> str:
    """Returns a request's trace id: that of its span, or the caller's, or one made here; 32 hexadecimal digits.

    `headers`: fields with lower-case names.
    """
    if (span := current_span()) is not None:
        return span.ids[0]
    for name, value in headers:
        if name in (b"traceparent", "traceparent"):
            text = value if isinstance(value, str) else value.decode("latin-1")
            if len(text) <= _LONGEST and (match := _TRACEPARENT.fullmatch(text)):
                return str(match[1])
    return secrets.token_hex(16)
