"""Starts a span for each request, and determines the trace id that connects its errors with the log."""

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from oncegate.core.errors import OncegateError
from oncegate.ports.tracing import Attributes, Tracer, TraceSpan, current_as, current_span
from oncegate.transports.outcomes import OutcomeKind, outcome_of

Fields = Iterable[tuple[str | bytes, str | bytes]]
# W3C Trace Context: version, trace id, the caller's span, flags. A trace id of zeros is invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_LONGEST = 256
# Failures of the gateway; all other kinds are the caller's to fix.
_FAILURES = frozenset({OutcomeKind.UNAVAILABLE, OutcomeKind.STORAGE_FULL, OutcomeKind.DEADLINE, OutcomeKind.INTERNAL})


@contextmanager
def request_span(tracer: Tracer, name: str, headers: Fields, attributes: Attributes) -> Iterator[TraceSpan | None]:
    """Starts a request's span and makes it the current one; yields None if the request is not sampled."""
    with tracer.request(name, headers, attributes) as span:
        if span is None:
            yield None
        else:
            with current_as(span):
                yield span


def note_refusal(error: OncegateError) -> None:
    """Records the code of a refusal in the request's span. The detail is omitted: it may quote the request."""
    if (span := current_span()) is not None:
        failed = outcome_of(type(error)).kind in _FAILURES
        span.note({"oncegate.code": error.code} | ({"error.type": error.code} if failed else {}))


def trace_id_of(headers: Fields) -> str:
    """Returns a request's trace id, 32 hexadecimal digits: the span's if there is one, else the caller's, else a new
    one.

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
