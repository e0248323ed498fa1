"""The dashboards match the gateway's metrics: a real Prometheus answers every query of every panel."""

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from oncegate_spark import Gateway
from tests.support.dashboards import PanelQuery, dashboards, panel_queries, panels, rules, unknown_in
from tests.support.gateway_process import GatewayProcess
from tests.support.prometheus import Prometheus
from tests.support.tree import ROOT

WINDOW = "1m"
# Legends of the queries that must change when duplicates arrive.
MOVED = {"Duplicate share", "Kept out", "Ids a second", "{{cause}}", "{{verdict}}", "{{namespace}} 99 %"}


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, Prometheus]]:
    folder = tmp_path_factory.mktemp("watched")
    with GatewayProcess(folder) as gateway, Prometheus(folder, gateway.port) as prometheus:
        prometheus.wait_for("count_over_time(namespace:oncegate_duplicates:share_rate5m[1m]) >= 2")
        yield gateway, prometheus


def present_values(prometheus: Prometheus, query: PanelQuery) -> list[float]:
    """Returns the present values of a query, and checks that they are finite and have the labels of its legend."""
    found = prometheus.query(query.filled(WINDOW))
    values = [float(series["value"][1]) for series in found]
    where = f"{query.dashboard}: {query.panel}: {query.filled(WINDOW)}"
    assert values, f"no data: {where}"
    assert all(math.isfinite(value) and value >= 0 for value in values), f"{values}: {where}"
    assert all(query.labels <= set(series["metric"]) for series in found), f"a label is missing: {where}"
    return values


@pytest.mark.server
def test_every_panel_shows_a_number_while_nothing_happens_and_moves_with_duplicates(watched: Any) -> None:
    gateway, prometheus = watched
    idle = {query: present_values(prometheus, query) for query in panel_queries()}
    assert {value for query in idle if query.legend in MOVED for value in idle[query]} == {0.0}
    write_twice(gateway)
    prometheus.wait_for('increase(oncegate_duplicates_total{cause="unknown"}[1m]) > 0')
    prometheus.wait_for("namespace:oncegate_duplicates:share_rate5m > 0")
    loaded = {query: present_values(prometheus, query) for query in panel_queries()}
    still = {query.panel for query in loaded if query.legend in MOVED and max(loaded[query]) == 0}
    assert still == set()
    (share,) = (loaded[query] for query in loaded if query.panel == "Duplicate share")
    assert share == [pytest.approx(0.5, abs=0.01)]


@pytest.mark.server
def test_every_series_of_the_endpoint_that_a_query_names_is_scraped(watched: Any) -> None:
    _, prometheus = watched
    names = prometheus.names()
    exprs = [query.expr for query in panel_queries()] + [rule["expr"] for rule in rules()]
    named = {name for expr in exprs for name in re.findall(r"(?<![\w:])(?:oncegate|process)_\w+\b(?!:)", expr)}
    assert named - names == set()
    assert {rule["record"] for rule in rules() if "record" in rule} - names == set()


def write_twice(gateway: GatewayProcess) -> None:
    ids = [f"order-{n}" for n in range(200)]
    with Gateway(gateway.url) as client:
        for _ in range(2):
            with client.attempt() as attempt:
                claimed = attempt.claim(ids)
                attempt.complete(claimed)


@pytest.mark.parametrize(
    "query", list(panel_queries()), ids=lambda query: f"{query.dashboard} {query.panel} {query.legend}"
)
def test_a_query_names_only_what_the_gateway_has_and_takes_its_gateways_from_above(query: PanelQuery) -> None:
    assert unknown_in(query.expr) == []
    selectors = re.findall(r"\b(?:oncegate|process)_\w+(\{[^}]*\})?", query.expr)
    assert all('job=~"$job"' in selector for selector in selectors), "a metric of every gateway there is"


@pytest.mark.parametrize(
    ("expr", "unknown"),
    [
        ("rate(oncegate_duplicate_total[5m])", ["oncegate_duplicate_total"]),
        ("oncegate_claim_seconds > 1", ["oncegate_claim_seconds"]),
        ('oncegate_namespace_state{state="SERVES"}', ["oncegate_namespace_state SERVES"]),
        ('oncegate_ids{tenant="a"}', ["oncegate_ids tenant"]),
        ("namespace:oncegate_ids:sum > 1", ["namespace:oncegate_ids:sum"]),
        ('rate(oncegate_claim_seconds_bucket{le="0.1"}[5m])', []),
    ],
)
def test_a_name_that_the_gateway_does_not_have_is_found(expr: str, unknown: list[str]) -> None:
    assert unknown_in(expr) == unknown


@pytest.mark.parametrize("name", list(dashboards()))
def test_a_dashboard_can_be_read_by_a_stranger(name: str) -> None:
    dashboard = dashboards()[name]
    assert [variable["name"] for variable in dashboard["templating"]["list"]] == ["datasource", "job", "namespace"]
    assert dashboard["editable"] is False
    for panel in panels(dashboard):
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(set(titles)) == len(titles)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places), "a panel hangs out of the page"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)


def test_the_committed_dashboards_are_what_the_code_makes() -> None:
    subprocess.run([sys.executable, "-m", "deploy.grafana", "--check"], cwd=ROOT, check=True)


def test_duplicates_come_first() -> None:
    first = panels(dashboards()["duplicates.json"])[0]
    assert (first["title"], first["type"], first["gridPos"]["y"]) == ("Duplicate share", "stat", 1)


def test_grafana_has_only_one_copy_of_the_dashboards() -> None:
    provisioning = ROOT / "deploy/grafana/provisioning"
    (source,) = read(provisioning / "datasources/prometheus.yaml")["datasources"]
    (provider,) = read(provisioning / "dashboards/oncegate.yaml")["providers"]
    scraped = read(ROOT / "deploy/prometheus/prometheus.yaml")["global"]["scrape_interval"]
    assert (source["type"], source["jsonData"]["timeInterval"]) == ("prometheus", scraped)
    assert (provider["type"], provider["allowUiUpdates"]) == ("file", False)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found
