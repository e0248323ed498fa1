"""Prometheus's view of /metrics: every row of the table, in every state of the gateway, as parseable text."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from oncegate.engine.counters import COUNTERS
from oncegate.engine.metrics.families import METRICS, MetricKind
from oncegate.transports.http.app import About, create_app
from tests.support.http_app import Http, asgi, open_http, request, served

PAGE = Path(__file__).parents[3] / "docs/metrics.md"
OPENMETRICS = "application/openmetrics-text"
# The header that Prometheus 3 sends.
PROMETHEUS = (
    f"{OPENMETRICS};version=1.0.0;escaping=allow-utf-8;q=0.6,{OPENMETRICS};version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def series(families: Iterable[Any]) -> Series:
    """Returns our samples by name and labels; no sample occurs twice."""
    samples = [sample for family in families for sample in family.samples if sample.name.startswith("oncegate_")]
    found = {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


async def scrape(http: Http) -> Series:
    reply = await http.get("/metrics")
    assert reply.status == 200, reply.body
    return series(parse_text(reply.body.decode()))


def value(found: Series, name: str, **labels: str) -> float:
    return found[f"oncegate_{name}", tuple(sorted({"namespace": "default", **labels}.items()))]


async def test_every_series_is_there_before_anything_was_asked() -> None:
    async with open_http() as http:
        found = await scrape(http)
    for metric in METRICS:
        suffix = "_count" if metric.kind is MetricKind.HISTOGRAM else ""
        told = [dict(labels) for name, labels in found if name == metric.full_name + suffix]
        assert told, metric.full_name
        assert all(set(labels) == set(metric.all_labels) for labels in told)
        if metric.known:
            assert [labels[metric.labels[0]] for labels in told] == list(metric.known), "each value of the label, at 0"


async def test_every_counter_of_the_api_is_the_number_that_its_series_shows() -> None:
    async with open_http() as http:
        claim = (await http.claim("a", "b", "a"))["claim"]
        await http.call("POST", f"/v1/namespaces/default/claims/{claim}:complete")
        await http.claim("a", "c")
        told = (await http.get("/v1/namespaces/default")).json["counters"]
        found = await scrape(http)
    assert told["duplicates"] == 1, "something was counted"
    for row in COUNTERS:
        name = (row.metric or row.name) + ("_total" if row.grows else "")
        shown = value(found, name, **dict([row.label] if row.label else []))
        assert shown == pytest.approx(int(told[row.name]) * row.scale), row.name


@pytest.mark.parametrize(
    ("wish", "media"),
    [
        (None, "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4; charset=utf-8"),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (PROMETHEUS, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
    ],
)
async def test_it_comes_in_the_format_that_the_reader_likes_best(wish: str | None, media: str) -> None:
    async with open_http() as http:
        reply = await http.call("GET", "/metrics", headers={} if wish is None else {"Accept": wish})
        assert (reply.status, reply.headers["content-type"]) == (200, media)
        head = await http.call("HEAD", "/metrics", headers={} if wish is None else {"Accept": wish})
        assert (head.status, head.headers["content-type"], head.body) == (200, media, b"")


async def test_a_reader_of_another_format_gets_the_available_ones() -> None:
    async with open_http() as http:
        refused = (await http.get("/metrics", Accept="application/json")).problem(406, "NOT_ACCEPTABLE")
        assert refused["available"] == ["text/plain", OPENMETRICS]


async def test_both_formats_parse_and_have_the_same_series() -> None:
    async with open_http() as http:
        await http.claim("a")
        plain, other = await http.get("/metrics"), await http.get("/metrics", Accept=OPENMETRICS)
        assert other.body.endswith(b"# EOF\n")
        assert series(parse_text(plain.body.decode())).keys() == series(parse_openmetrics(other.body.decode())).keys()


async def test_before_any_ledger_is_opened_it_reports_that_and_nothing_else() -> None:
    async with open_http() as http:
        closed = create_app(http.app.state.observer, About("memory:", ""))
        reply = await asgi(closed, "GET", "/metrics", b"", {})
        assert series(parse_text(reply.body.decode())) == {("oncegate_started", ()): 0.0}
        assert (await scrape(http))["oncegate_started", ()] == 1.0


async def test_the_page_names_what_the_endpoint_has_and_nothing_else() -> None:
    named = set(re.findall(r"^\|`(oncegate_\w+)`\|", PAGE.read_text(), re.MULTILINE))
    async with open_http() as http:
        found = await scrape(http)
    assert named == {re.sub(r"_(bucket|count|sum)$", "", name) for name, _ in found}


async def test_what_only_grows_ends_in_total_and_nothing_else_does() -> None:
    async with open_http() as http:
        text = (await http.get("/metrics")).body.decode()
    kinds = dict(re.findall(r"^# TYPE (oncegate_\w+) (\w+)$", text, re.MULTILINE))
    assert {name for name, kind in kinds.items() if kind == "counter"} == {n for n in kinds if n.endswith("_total")}


async def test_a_refused_request_is_counted() -> None:
    async with open_http() as http:
        limit_bytes = http.gateway.limits.bytes_in_flight
        http.gateway.admission.size_bytes += limit_bytes
        refused = await http.post_json("/v1/namespaces/default/ids:claim", {"token": "0" * 32, "call": 0, "ids": ["a"]})
        refused.problem(503, "OVERLOADED")
        found = await scrape(http)
        assert found["oncegate_admission_refused_requests_total", ()] == 1
        assert found["oncegate_admission_bytes", ()] == found["oncegate_admission_limit_bytes", ()] == limit_bytes


async def test_the_real_server_serves_it_by_its_name() -> None:
    async with served() as http:
        found = await http.send(request("GET", "/metrics"))
        assert ("oncegate_started", ()) in series(parse_text(found.body.decode()))
        (await http.send(request("GET", "/metrics", Host="evil.example"))).problem(421, "MISDIRECTED")
