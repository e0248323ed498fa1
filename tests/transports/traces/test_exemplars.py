"""At /metrics the newest traced value of a bucket names its trace, in OpenMetrics."""

from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests.support.http_app import Served, request, served
from tests.support.http_requests import packed
from tests.support.otlp_receiver import Receiver

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


async def exemplars(http: Served) -> dict[str, Any]:
    """Returns the samples with a trace, by name of their metric."""
    reply = await http.send(request("GET", "/metrics", Accept="application/openmetrics-text"))
    assert reply.status == 200, reply.body
    samples = [one for family in parse_openmetrics(reply.body.decode()) for one in family.samples]
    return {sample.name: sample for sample in samples if sample.exemplar is not None}


async def test_a_claim_that_was_traced_is_named_in_the_bucket_that_it_is_counted_in(receiver: Receiver) -> None:
    async with served() as http:
        assert (await http.send(packed(bytes(16), traceparent=f"00-{TRACE}-{CALLER}-01"))).status == 200
        found = await exemplars(http)
        plain = await http.send(request("GET", "/metrics"))
    assert found.keys() == {"oncegate_claim_seconds_bucket", "oncegate_append_seconds_bucket"}
    for sample in found.values():
        assert sample.exemplar.labels["trace_id"] == TRACE
        assert len(sample.exemplar.labels["span_id"]) == 16
        assert 0 <= sample.exemplar.value <= float(sample.labels["le"])
    spans = receiver.of(TRACE)
    named = {sample.exemplar.labels["span_id"] for sample in found.values()}
    assert named == {span.span_id for span in spans if span.name in ("claim", "group commit")}
    assert TRACE.encode() not in plain.body, "the older format has no place for it"


async def test_a_claim_that_is_not_sampled_leaves_no_exemplar(receiver: Receiver) -> None:
    async with served() as http:
        assert (await http.send(packed(bytes(16), traceparent=f"00-{TRACE}-{CALLER}-00"))).status == 200
        assert await exemplars(http) == {}
