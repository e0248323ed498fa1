"""Passes on the trace that a call is part of: OpenTelemetry's current span, else what the environment says.

OpenTelemetry is no dependency, and is not imported here: whoever has a current span has imported it. `TRACEPARENT` and
`TRACESTATE` are the variables by which processes hand a trace on (OpenTelemetry, Environment Variable Carriers).
"""

import os
import re
import sys

# W3C Trace Context; ids of zeros are none.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE = re.compile(r"[!-~][ -~]{0,511}")


def trace_headers() -> dict[str, str]:
    """Returns the headers that say which span a request is part of; none where there is none."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import propagate

        propagate.inject(headers)
    return headers or of_environment()


def of_environment() -> dict[str, str]:
    """Returns what TRACEPARENT says, and TRACESTATE beside it; nothing where that is no trace."""
    parent, state = os.environ.get("TRACEPARENT", ""), os.environ.get("TRACESTATE", "")
    if not _TRACEPARENT.fullmatch(parent):
        return {}
    return {"traceparent": parent} | ({"tracestate": state} if _TRACESTATE.fullmatch(state) else {})
