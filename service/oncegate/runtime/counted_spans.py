"""Counts what becomes of spans: OpenTelemetry's batches say in a log line that some were lost, and never how many."""

import os
import threading
from collections.abc import Sequence

from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from oncegate.ports.tracing import SPAN_OUTCOMES

# The library's own default, and what it takes where the variable is no number.
QUEUE_MAX = 2_048
SENT, FAILED, QUEUE_FULL = SPAN_OUTCOMES


class SpanCounts:
    """Counts the spans of all exporters, by `SPAN_OUTCOMES`; from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.outcomes = dict.fromkeys(SPAN_OUTCOMES, 0)

    def add(self, outcome: str, count: int) -> None:
        """Counts so many spans more."""
        with self._lock:
            self.outcomes[outcome] += count


class CountedExporter(SpanExporter):
    """Sends by another exporter, and counts how that ended."""

    def __init__(self, exporter: SpanExporter, counts: SpanCounts) -> None:
        self._exporter, self._counts = exporter, counts
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Sends spans; what it raises passes on."""
        self.taken += len(spans)
        ended = SpanExportResult.FAILURE
        try:
            ended = self._exporter.export(spans)
        finally:
            self._counts.add(SENT if ended is SpanExportResult.SUCCESS else FAILED, len(spans))
        return ended

    def shutdown(self) -> None:
        """Ends the other one."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Has the other one send what it holds."""
        return self._exporter.force_flush(timeout_millis)


class CountedBatches(BatchSpanProcessor):
    """Sends spans in batches, and counts those that its queue had no room for.

    The queue's length is the library's own; it is what came less what the exporter took and what was lost. So spans of
    a batch that was just taken out, and not handed over yet, count as queued.
    """

    def __init__(self, exporter: SpanExporter, counts: SpanCounts) -> None:
        self._counted, self._counts, self._most = CountedExporter(exporter, counts), counts, _queue_max()
        self._ending = threading.Lock()
        self._came = self._lost = 0
        super().__init__(self._counted, max_queue_size=self._most)

    def on_end(self, span: ReadableSpan) -> None:
        """Queues a span that was sampled."""
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
