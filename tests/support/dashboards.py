"""Reads Grafana's dashboards and Prometheus's rules: their queries and the names in these."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from oncegate.engine.metrics.families import METRICS, Metric, MetricKind
from tests.support.prometheus import RULES
from tests.support.tree import ROOT

FOLDER = ROOT / "deploy/grafana/dashboards"
_HISTOGRAM = re.compile(r"_(bucket|count|sum)$")
_SELECTOR = re.compile(r"\b(oncegate_\w+)(?:\{([^}]*)\})?(?!:)")
_MATCHER = re.compile(r'(\w+)(?:=~|!=|!~|=)"([^"]*)"')
# Labels that Prometheus adds to every series.
_GIVEN = {"job", "instance"}


@dataclass(frozen=True)
class PanelQuery:
    """A query of a panel."""

    dashboard: str
    panel: str
    expr: str
    legend: str

    def filled(self, window: str) -> str:
        """Returns the query as Grafana sends it for all gateways and namespaces, with one window for all ranges."""
        values = {"job": ".+", "namespace": ".+", "__rate_interval": window, "__range": window}
        return re.sub(r"\$(\w+)", lambda found: values[found[1]], self.expr)

    @property
    def labels(self) -> set[str]:
        """Returns the labels that its legend names."""
        return set(re.findall(r"{{(\w+)}}", self.legend))


def dashboards() -> dict[str, dict[str, Any]]:
    """Returns every committed dashboard by file name."""
    return {path.name: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the panels without row headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def panel_queries() -> Iterator[PanelQuery]:
    for name, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield PanelQuery(name, panel["title"], target["expr"], target["legendFormat"])


def rules() -> list[dict[str, Any]]:
    """Returns every recording rule and alert."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def unknown_in(expr: str) -> list[str]:
    """Returns the metrics, labels and label values in a query that the gateway does not export."""
    found = []
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for name in re.findall(r"\b\w+:[\w:]+", expr):
        found += [] if name in recorded else [name]
    for name, matchers in _SELECTOR.findall(re.sub(r"\b\w+:[\w:]+", "", expr)):
        metric = _metric(name)
        found += [name] if metric is None else [f"{name} {one}" for one in _unknown_labels(metric, name, matchers)]
    return found


def _metric(name: str) -> Metric | None:
    """Returns the metric to which a series belongs."""
    for metric in METRICS:
        is_histogram = metric.kind is MetricKind.HISTOGRAM
        if metric.full_name == (_HISTOGRAM.sub("", name) if is_histogram else name):
            return None if is_histogram and not _HISTOGRAM.search(name) else metric
    return None


def _unknown_labels(metric: Metric, name: str, matchers: str) -> Iterator[str]:
    own = {*metric.all_labels, *_GIVEN, *(["le"] if name.endswith("_bucket") else [])}
    for label, values in _MATCHER.findall(matchers):
        if label not in own:
            yield label
        elif label in metric.labels and metric.known:
            yield from (value for value in values.split("|") if value not in metric.known)
