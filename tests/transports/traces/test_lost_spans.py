"""Lost spans are counted: those refused by a collector, and those that found the queue full."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from oncegate.ports.tracing import SPAN_OUTCOMES
from oncegate.runtime.tracing import CountedBatches, SpanCounts
from tests.support.http_app import CLAIM, JSON, Served, request, served
from tests.support.otlp_receiver import Receiver

SPANS = 100


class Slow(SpanExporter):
    """An exporter whose exports wait for `gate`, and end with `ends`."""

    def __init__(self) -> None:
        self.gate, self.begun = threading.Event(), threading.Event()
        self.ends: SpanExportResult | Exception = SpanExportResult.SUCCESS
        self.got = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.begun.set()
        assert self.gate.wait(30)
        self.got += len(spans)
        if isinstance(self.ends, Exception):
            raise self.ends
        return self.ends


def record(provider: TracerProvider, count: int) -> None:
    tracer = provider.get_tracer("test")
    for _ in range(count):
        tracer.start_span("one").end()


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        (SpanExportResult.SUCCESS, "sent"),
        (SpanExportResult.FAILURE, "failed"),
        (OSError("the collector is away"), "failed"),
    ],
)
def test_each_span_is_sent_or_counted_as_lost_by_why(ends: Any, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    slow, counts, provider = Slow(), SpanCounts(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(CountedBatches(slow, counts))
    record(provider, 4)
    assert slow.begun.wait(30)
    record(provider, SPANS)
    # A batch is under way, eight wait, and the others found no room.
    assert counts.outcomes == {"sent": 0, "failed": 0, "queue_full": SPANS - 8}
    slow.ends = ends
    slow.gate.set()
    provider.shutdown()
    assert slow.got == 12
    assert counts.outcomes == {"sent": 0, "failed": 0, "queue_full": SPANS - 8} | {outcome: 12}


def test_spans_that_are_not_sampled_are_neither_sent_nor_lost() -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

    slow, counts = Slow(), SpanCounts()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(CountedBatches(slow, counts))
    slow.gate.set()
    record(provider, 10_000)
    provider.shutdown()
    assert counts.outcomes == dict.fromkeys(SPAN_OUTCOMES, 0)


async def test_spans_refused_by_a_collector_are_counted_in_the_metrics(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    async with served() as http:
        receiver.status = 400  # which the library does not repeat
        body = json.dumps({"token": "ab" * 16, "call": 0, "ids": ["a"]}).encode()
        assert (await http.send(request("POST", CLAIM, body, Content_Type=JSON))).status == 200
        while not (found := await outcomes(http))["failed"]:
            pass
        assert (found["sent"], found["queue_full"]) == (0, 0)


async def test_without_traces_all_counts_are_zero() -> None:
    async with served() as http:
        assert await outcomes(http) == dict.fromkeys(SPAN_OUTCOMES, 0)


async def outcomes(http: Served) -> dict[str, int]:
    page = (await http.send(request("GET", "/metrics"))).body.decode()
    begin = 'oncegate_trace_spans_total{outcome="'
    lines = [line.removeprefix(begin) for line in page.splitlines() if line.startswith(begin)]
    return {line.partition('"')[0]: int(float(line.split()[-1])) for line in lines}
