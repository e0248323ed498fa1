"""Records a task that writes as one span, the parent of its requests, and passes on the trace that a call is part of.

The trace is that of OpenTelemetry's current span, else the one in the environment. Spans are recorded where
OpenTelemetry's SDK is set up by the job, or where OTEL_TRACES_EXPORTER or an OTLP endpoint is set. Nothing that goes
wrong with a trace fails a task. OpenTelemetry is no dependency and is not imported for passing on: a program with a
current span has imported it. `TRACEPARENT` and `TRACESTATE` are the variables by which processes hand a trace on
(OpenTelemetry, Environment Variable Carriers).
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


# A worker may be killed once its task is over: what is recorded is sent before, and a collector that is away is not
# waited for.
FLUSH_S = 2.0
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

log = logging.getLogger("oncegate_spark")


@contextmanager
def task_span(name: str, numbers: Mapping[str, int | str | None]) -> Iterator[None]:
    """Records what runs inside, below what TRACEPARENT says; without the SDK it only runs. `numbers`: its attributes,
    where they are known."""
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
    """Tells whether the environment asks for traces, by OTLP."""
    variables = {name: value.strip().lower() for name, value in environ.items() if value.strip()}
    exporter = variables.get(
        "OTEL_TRACES_EXPORTER", "otlp" if any(name in variables for name in _ENDPOINTS) else "none"
    )
    return exporter == "otlp" and variables.get("OTEL_SDK_DISABLED") != "true"


@cache
def _provider(_pid: int) -> Any:
    """What records spans in this process; None: the SDK is not here, or nobody asks. `_pid`: Spark's workers fork."""
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
    log.warning("OpenTelemetry's variables ask for traces that cannot be sent from here: this task records none")
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
