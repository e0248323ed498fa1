"""Trace context: adds it to requests, and records a Spark task that writes as one span, the parent of its requests.

The trace is that of OpenTelemetry's current span, else that of the environment variables `TRACEPARENT` and `TRACESTATE`
(OpenTelemetry, Environment Variable Carriers). Spans are recorded if the job sets up OpenTelemetry's SDK, or if
OTEL_TRACES_EXPORTER or an OTLP endpoint is set. A tracing failure never fails a task. OpenTelemetry is not a
dependency: a program with a current span has imported it already.
"""

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

# W3C Trace Context; ids of zeros are invalid.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE = re.compile(r"[!-~][ -~]{0,511}")


def trace_headers() -> dict[str, str]:
    """Returns the trace headers of a request; empty without a trace."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import propagate

        propagate.inject(headers)
    return headers or of_environment()


def of_environment() -> dict[str, str]:
    """Returns the trace of TRACEPARENT and TRACESTATE; empty if there is none or it is invalid."""
    parent, state = os.environ.get("TRACEPARENT", ""), os.environ.get("TRACESTATE", "")
    if not _TRACEPARENT.fullmatch(parent):
        return {}
    return {"traceparent": parent} | ({"tracestate": state} if _TRACESTATE.fullmatch(state) else {})


# A worker may be killed once its task ends. Spans are therefore flushed before, but a collector that does not answer
# must not delay the task for longer than this.
FLUSH_S = 2.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

log = logging.getLogger("oncegate_spark")


@contextmanager
def task_span(name: str, numbers: Mapping[str, int | str | None]) -> Iterator[None]:
    """Records the block as a span below the trace of TRACEPARENT; without the SDK the block just runs.

    `numbers`: attributes; those that are None are left out.
    """
    provider = _provider(os.getpid())
    if provider is None:
        yield
        return
    from opentelemetry import propagate

    attributes = {name: value for name, value in numbers.items() if value is not None}
    above = propagate.extract(of_environment())
    try:
        with provider.get_tracer("oncegate_spark").start_as_current_span(
            name, above, attributes=attributes, record_exception=False, set_status_on_exception=True
        ):
            yield
    finally:
        sending = threading.Thread(target=provider.force_flush, daemon=True)
        sending.start()
        sending.join(FLUSH_S)


def asks(environ: Mapping[str, str]) -> bool:
    """True if the environment requests traces by OTLP."""
    variables = {name: value.strip().lower() for name, value in environ.items() if value.strip()}
    exporter = variables.get(
        "OTEL_TRACES_EXPORTER", "otlp" if any(name in variables for name in _ENDPOINTS) else "none"
    )
    return exporter == "otlp" and variables.get("OTEL_SDK_DISABLED") != "true"


@cache
def _provider(_pid: int) -> Any:
    """Returns the tracer provider of this process; None without the SDK, or if no traces are requested.

    `_pid` is part of the cache key because Spark's workers fork.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ModuleNotFoundError:
        return None
    own = trace.get_tracer_provider()
    if isinstance(own, TracerProvider):
        return own
    if not asks(os.environ):
        return None
    with suppress(Exception):
        return _made()
    log.warning("OpenTelemetry's variables request traces, but no exporter can be created here: this task records none")
    return None


def _made() -> Any:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": "oncegate-spark"}))
    protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    if next((os.environ[name] for name in protocols if os.environ.get(name)), "") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as by_grpc

        provider.add_span_processor(BatchSpanProcessor(by_grpc.OTLPSpanExporter()))
    else:
        from opentelemetry.exporter.otlp.proto.http import trace_exporter as by_http

        provider.add_span_processor(BatchSpanProcessor(by_http.OTLPSpanExporter()))
    return provider
