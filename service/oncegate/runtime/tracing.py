"""Implements `ports.Tracer` with OpenTelemetry's SDK, configured by its environment variables (extra oncegate[otel]).

Imported only when these variables ask for traces. The provider is this program's own and never the global one:
libraries that record what they serve (FastAPI does, with the query and the ids in it) find none and record nothing.
OpenTelemetry logs that spans were lost, but not how many; `CountedBatches` counts them.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from opentelemetry import propagate
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE, OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.trace import (
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

import oncegate
from oncegate.core.errors import OncegateError
from oncegate.ports import Clock, Observer
from oncegate.ports.tracing import SPAN_OUTCOMES, Attributes, TraceSpan
from oncegate.runtime.otel_variables import GRPC, WantedTraces

# The library's own default, and what it takes where the variable is no number.
QUEUE_MAX = 2_048
SENT, FAILED, QUEUE_FULL = SPAN_OUTCOMES


class SpanCounts:
    """Counts the spans of all exporters by outcome (`SPAN_OUTCOMES`); thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.outcomes = dict.fromkeys(SPAN_OUTCOMES, 0)

    def add(self, outcome: str, count: int) -> None:
        """Adds `count` to the number of spans with an outcome."""
        with self._lock:
            self.outcomes[outcome] += count


class CountedExporter(SpanExporter):
    """Wraps an exporter and counts the outcomes of its exports."""

    def __init__(self, exporter: SpanExporter, counts: SpanCounts) -> None:
        self._exporter, self._counts = exporter, counts
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Exports spans and counts the outcome; raises the exporter's errors."""
        self.taken += len(spans)
        ended = SpanExportResult.FAILURE
        try:
            ended = self._exporter.export(spans)
        finally:
            self._counts.add(SENT if ended is SpanExportResult.SUCCESS else FAILED, len(spans))
        return ended

    def shutdown(self) -> None:
        """Shuts down the wrapped exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flushes the wrapped exporter."""
        return self._exporter.force_flush(timeout_millis)


class CountedBatches(BatchSpanProcessor):
    """Sends spans in batches, and counts the spans dropped because the queue was full.

    The queue's length is the library's own; it is what came less what the exporter took and what was lost. So spans of
    a batch that was just taken out, and not handed over yet, count as queued.
    """

    def __init__(self, exporter: SpanExporter, counts: SpanCounts) -> None:
        self._counted, self._counts, self._most = CountedExporter(exporter, counts), counts, _queue_max()
        self._ending = threading.Lock()
        self._came = self._lost = 0
        super().__init__(self._counted, max_queue_size=self._most)

    def on_end(self, span: ReadableSpan) -> None:
        """Queues a span if it is sampled."""
        if span.context is not None and span.context.trace_flags.sampled:
            with self._ending:
                self._came += 1
                if self._came - self._counted.taken - self._lost > self._most:
                    self._lost += 1
                    self._counts.add(QUEUE_FULL, 1)
        super().on_end(span)


def _queue_max() -> int:
    try:
        return int(os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE, QUEUE_MAX))
    except ValueError:
        return QUEUE_MAX


# The library logs each failed export; without this limit, an unreachable collector would log every five seconds.
SAID_EVERY_MS = 60_000
# Time for the last batch at shutdown: an unreachable collector must not delay the end of the process.
FLUSH_MS = 3_000


class Recording:
    """Implements `ports.Span` with a span of the SDK."""

    __slots__ = ("_span", "_tracer")

    def __init__(self, span: SdkSpan, tracer: Tracer) -> None:
        self._span, self._tracer = span, tracer

    @property
    def ids(self) -> tuple[str, str]:
        """Returns the trace id and the span id in hexadecimal digits."""
        context = self._span.get_span_context()
        return f"{context.trace_id:032x}", f"{context.span_id:016x}"

    @contextmanager
    def child(self, name: str, attributes: Attributes) -> Iterator["Recording"]:
        """Records a child span while the block runs."""
        kind = SpanKind.PRODUCER if "messaging.system" in attributes else SpanKind.INTERNAL
        above = set_span_in_context(self._span)
        with _ended(self._tracer.start_span(name, above, kind, attributes)) as span:
            yield Recording(span, self._tracer)

    def link(self, other: TraceSpan) -> None:
        """Adds a link to a different span."""
        if self._span.is_recording():
            trace_id, span_id = other.ids
            sampled = TraceFlags(TraceFlags.SAMPLED)
            self._span.add_link(SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=sampled))

    def note(self, attributes: Attributes, name: str | None = None) -> None:
        """Adds attributes, and renames the span if `name` is given."""
        if not self._span.is_recording():
            return
        self._span.set_attributes(attributes)
        if name is not None:
            self._span.update_name(name)
        if "error.type" in attributes:
            self._span.set_status(Status(StatusCode.ERROR))


class OtelTracer:
    """Implements `ports.Tracer`; reads callers' trace headers with the propagators of OTEL_PROPAGATORS (default:
    tracecontext).
    """

    def __init__(self, provider: TracerProvider, counts: SpanCounts) -> None:
        self._counts = counts
        self._tracer = provider.get_tracer("oncegate", oncegate.__version__)
        self._propagator = propagate.get_global_textmap()
        self._fields = frozenset(field.lower() for field in self._propagator.fields)

    @property
    def outcomes(self) -> Mapping[str, int]:
        """Returns the number of spans by outcome, over all exporters."""
        return self._counts.outcomes

    @contextmanager
    def request(
        self, name: str, headers: Iterable[tuple[str | bytes, str | bytes]], attributes: Attributes
    ) -> Iterator[Recording | None]:
        """Records a request as a child of its caller's span; yields None if it is not sampled."""
        above = self._propagator.extract(self._carrier(headers))
        with _ended(self._tracer.start_span(name, above, SpanKind.SERVER, attributes)) as span:
            yield Recording(span, self._tracer) if span.is_recording() else None

    def _carrier(self, headers: Iterable[tuple[str | bytes, str | bytes]]) -> Mapping[str, str]:
        """Returns the headers that the propagators read, without those that occur twice."""
        carrier: dict[str, str] = {}
        twice = set()
        for name, value in headers:
            key = _text(name)
            if key in self._fields:
                twice.update({key} & carrier.keys())
                carrier[key] = _text(value)
        return {key: value for key, value in carrier.items() if key not in twice}


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


@contextmanager
def _ended(span: Any) -> Iterator[Any]:
    try:
        yield span
    except BaseException as error:
        # Without the text, which may name ids. The span of the request decides whether a refusal is a failure.
        if isinstance(error, OncegateError):
            span.set_attribute("oncegate.code", error.code)
        else:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
        raise
    finally:
        span.end()


class TraceLibraryLog(logging.Handler):
    """Reports log records of OpenTelemetry's libraries as events, at most one per kind and minute."""

    def __init__(self, observer: Observer, clock: Clock) -> None:
        super().__init__(logging.WARNING)
        self._observer, self._clock = observer, clock
        self._said_ms: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Reports the record, unless one of its kind was reported within the last minute."""
        now_ms, kind = self._clock.monotonic_ms(), str(record.msg)
        if now_ms - self._said_ms.get(kind, -SAID_EVERY_MS) >= SAID_EVERY_MS:
            self._said_ms[kind] = now_ms
            self._observer.event("traces_not_sent", detail=record.getMessage()[:500])


@asynccontextmanager
async def tracing(made: Sequence[SpanExporter], observer: Observer, clock: Clock) -> AsyncIterator[OtelTracer]:
    """Records spans and sends them from background threads; on exit, flushes the rest for at most `FLUSH_MS`.

    Spans that find the queue full (OTEL_BSP_MAX_QUEUE_SIZE) are lost, which the event `traces_not_sent` reports;
    how many, the tracer's `outcomes`.
    """
    said = logging.getLogger("opentelemetry")
    said.handlers, said.propagate = [TraceLibraryLog(observer, clock)], False
    provider, counts = TracerProvider(resource=_resource(), shutdown_on_exit=False), SpanCounts()
    for exporter in made:
        provider.add_span_processor(CountedBatches(exporter, counts))
    try:
        yield OtelTracer(provider, counts)
    finally:
        # A thread that the process does not wait for: the library's own end takes half a minute.
        ending = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
        ending.start()
        await asyncio.to_thread(ending.join, FLUSH_MS / 1_000)


def exporters(wanted: WantedTraces) -> list[SpanExporter]:
    """Creates the span exporters, without connecting them.

    Raises ModuleNotFoundError if the library is not installed, and ValueError if a variable's value is invalid.
    """
    return [ConsoleSpanExporter() if name == "console" else _otlp(wanted.protocol) for name in wanted.exporters]


def _otlp(protocol: str) -> SpanExporter:
    if protocol == GRPC:
        from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as by_grpc

        return by_grpc.OTLPSpanExporter()
    from opentelemetry.exporter.otlp.proto.http import trace_exporter as by_http

    return by_http.OTLPSpanExporter()


def _resource() -> Resource:
    """Returns the resource from the environment; its default name is `oncegate`."""
    named = OTEL_SERVICE_NAME in os.environ or "service.name=" in os.environ.get(OTEL_RESOURCE_ATTRIBUTES, "")
    own = {"service.version": oncegate.__version__}
    return Resource.create(own if named else own | {"service.name": "oncegate"})
