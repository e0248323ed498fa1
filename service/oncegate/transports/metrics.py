"""Writes metrics in the Prometheus text format or as OpenMetrics, for every transport."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

from oncegate.engine.counts.counts import Exemplar as Traced
from oncegate.engine.counts.counts import Histogram
from oncegate.engine.metrics.families import PREFIX, MetricKind
from oncegate.engine.metrics.reader import Family

TEXT = "text/plain"
OPENMETRICS = "application/openmetrics-text"
CONTENT_TYPES = {TEXT: CONTENT_TYPE_PLAIN_0_0_4, OPENMETRICS: openmetrics.CONTENT_TYPE_LATEST}
# In OpenMetrics only base units may end a metric's name.
_BASE_UNITS = ("bytes", "seconds", "ratio")
_FAMILIES: dict[MetricKind, Any] = {MetricKind.COUNTER: CounterMetricFamily, MetricKind.GAUGE: GaugeMetricFamily}
_PROCESS = ProcessCollector(registry=None)


def written(families: Sequence[Family], media: str) -> bytes:
    """Writes metric families and the process's own metrics (`process_…`) as TEXT or OPENMETRICS.

    Takes some microseconds per series: run it in a thread.
    """
    registry = CollectorRegistry()
    registry.register(_Read(families))
    if media == OPENMETRICS:
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return text
    return generate_latest(registry)


class _Read(Collector):
    """A Prometheus collector over metric families that were read beforehand."""

    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        yield from map(_family, self._families)
        yield from _PROCESS.collect()

    def describe(self) -> Iterable[Metric]:
        return ()


def _family(family: Family) -> Metric:
    metric = family.metric
    name, help_text = PREFIX + metric.name, ": ".join(filter(None, (metric.unit, metric.meaning)))
    unit = metric.unit if metric.unit in _BASE_UNITS else ""
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, help_text, labels=metric.all_labels, unit=unit)
        for labels, value in family.values.items():
            assert isinstance(value, Histogram)
            histogram.add_metric(labels, list(_buckets(value, metric.scale)), _scaled(value.total, metric.scale))
        return histogram
    numbers = _FAMILIES[metric.kind](name, help_text, labels=metric.all_labels, unit=unit)
    for labels, value in family.values.items():
        assert not isinstance(value, Histogram)
        numbers.add_metric(labels, _scaled(value, metric.scale))
    filled: Metric = numbers
    return filled


def _scaled(value: float, scale: float) -> float:
    return value if scale == 1.0 else round(value * scale, 9)


def _buckets(histogram: Histogram, scale: float) -> Iterator[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Yields each bucket's bound, its cumulative count, and an exemplar if one is known."""
    *counts, total = histogram.cumulative()
    found = {at: _exemplar(one, scale) for at, one in histogram.exemplars.items()}
    for at, (bound, count) in enumerate(zip(histogram.bounds, counts, strict=True)):
        yield _bucket(str(float(_scaled(bound, scale))), count, found.get(at))
    yield _bucket("+Inf", total, found.get(len(counts)))


def _bucket(bound: str, count: float, exemplar: Exemplar | None) -> tuple[str, float] | tuple[str, float, Exemplar]:
    return (bound, count) if exemplar is None else (bound, count, exemplar)


def _exemplar(kept: Traced, scale: float) -> Exemplar:
    labels = {"trace_id": kept.trace_id, "span_id": kept.span_id}
    return Exemplar(labels, _scaled(kept.value, scale), kept.wall_ms / 1_000)
