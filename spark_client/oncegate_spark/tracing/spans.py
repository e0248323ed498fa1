"""Records a task that writes as one span, the parent of its requests, where OpenTelemetry's SDK is and is asked for.

Asked for as of the gateway: by the SDK's own provider where the job has set one up, else by the environment's
OTEL_TRACES_EXPORTER or an OTLP endpoint. Nothing that goes wrong with a trace fails a task.
"""

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from oncegate_spark.tracing.context import of_environment

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
