"""A request over HTTP or gRPC is one span below its caller's, with the engine's and the ledger's work below it."""

import asyncio
import json

import pytest

from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.blocked_appends import Gate
from tests.support.grpc_app import PATHS, both
from tests.support.http_app import request, served
from tests.support.http_requests import PRODUCE, ROWS, arrow, claim_json, packed
from tests.support.memory_gateway import wait_until
from tests.support.otlp_receiver import Receiver, Span, otlp_over_grpc

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-{CALLER}-{flags}" for flags in ("01", "00"))
SERVER = 2
CLAIM = "POST /v1/namespaces/{namespace}/ids:claim"
RPC = "oncegate.v1.ClaimService/Claim"


async def spans_of(receiver: Receiver, *names: str, trace_id: str | None = TRACE) -> dict[str, Span]:
    return await asyncio.to_thread(receiver.wait_for, *names, trace_id=trace_id)


def is_below(span: Span, parent: Span) -> bool:
    """Returns whether a span is a child of another, also in time."""
    within = parent.began_ns <= span.began_ns <= span.ended_ns <= parent.ended_ns
    return (span.trace_id, span.parent_id) == (parent.trace_id, parent.span_id) and within


async def test_a_claim_over_http_is_one_span_below_its_caller_and_the_append_is_below_the_claim(
    receiver: Receiver,
) -> None:
    async with served() as http:
        assert (await http.send(packed(bytes(16), traceparent=SAMPLED))).status == 200
        found = await spans_of(receiver, CLAIM, "claim", "group commit", "append")
    door, claim, commit, append = (found[name] for name in (CLAIM, "claim", "group commit", "append"))
    assert (door.trace_id, door.parent_id, door.kind, door.service) == (TRACE, CALLER, SERVER, "oncegate")
    assert is_below(claim, door)
    assert commit.parent_id == claim.span_id
    assert is_below(append, commit)
    assert door.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/namespaces/{namespace}/ids:claim",
        "http.response.status_code": 200,
        "oncegate.namespace": "default",
    }
    assert claim.attributes == {"oncegate.ids": 1, "oncegate.duplicates": 0}
    assert commit.attributes == {"oncegate.changes": 1, "oncegate.entries": 1}


async def test_one_append_of_many_claims_is_below_one_of_them_and_linked_with_the_others(receiver: Receiver) -> None:
    async with served() as http:
        traces = [f"{n:032x}" for n in range(1, 9)]
        sent = [
            packed(bytes([n]) * 16, Oncegate_Token=f"{n:032x}", traceparent=f"00-{trace}-{CALLER}-01")
            for n, trace in enumerate(traces, 1)
        ]
        assert {reply.status for reply in await asyncio.gather(*map(http.send, sent))} == {200}
        claims = [(await spans_of(receiver, "claim", trace_id=trace))["claim"] for trace in traces]
    commits = [span for span in receiver.spans if span.name == "group commit"]
    assert len(commits) < len(claims), "several went into one"
    for claim in claims:
        # Its own append is a child, or one with mutual links.
        linked = [one for one in commits if (one.trace_id, one.span_id) in claim.links]
        assert all((claim.trace_id, claim.span_id) in one.links for one in linked)
        assert len(linked) == 1
    assert sum(int(str(one.attributes["oncegate.entries"])) for one in commits) == len(claims)


async def test_an_answer_that_rests_on_an_append_under_way_is_linked_with_it(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "a" * 32
    async with served() as http:
        with Gate(monkeypatch) as gate:
            first = asyncio.create_task(http.send(packed(bytes(16), traceparent=SAMPLED)))
            await wait_until(lambda: gate.came == 1)
            late = packed(bytes(16), traceparent=f"00-{other}-{CALLER}-01")  # a repeat, whose answer is the same
            second = asyncio.create_task(http.send(late))
            await wait_until(lambda: http.program.gateway.namespace("default").home.group_commit.queued[1] == 2)
        assert {(await first).status, (await second).status} == {200}
        commit = (await spans_of(receiver, "group commit"))["group commit"]
        claim = (await spans_of(receiver, "claim", trace_id=other))["claim"]
    assert (commit.trace_id, commit.span_id) in claim.links
    assert (claim.trace_id, claim.span_id) in commit.links


async def test_rows_that_are_produced_are_a_span_of_their_own_name(receiver: Receiver) -> None:
    async with served() as http:
        reply = await http.send(arrow(ROWS, f"{PRODUCE}?id_col=id", traceparent=SAMPLED))
        assert reply.status == 200, reply.body
        found = await spans_of(receiver, "produce", "append")
    assert found["produce"].attributes["oncegate.ids"] == 2


async def test_requests_served_by_the_framework_are_named_by_their_route_and_no_query_is_recorded(
    receiver: Receiver,
) -> None:
    async with served() as http:
        path = "/v1/namespaces/default/ids:explain"
        reply = await http.send(request("GET", f"{path}?id=very-secret", traceparent=SAMPLED))
        assert reply.status == 200, reply.body
        name = "GET /v1/namespaces/{namespace}/ids:explain"
        found = (await spans_of(receiver, name))[name]
    assert (found.parent_id, found.attributes["http.response.status_code"]) == (CALLER, 200)
    assert [span.name for span in receiver.of(TRACE)] == ["explain", name]
    assert not any(b"very-secret" in body for body in receiver.raw)


async def test_a_refusal_for_the_caller_to_fix_has_its_code_and_is_no_error(receiver: Receiver) -> None:
    async with served() as http:
        body = json.dumps({"token": "f" * 32, "call": 0, "ids": ["a", None]}).encode()
        refused = (await http.send(claim_json(body, traceparent=SAMPLED))).problem(422, "NULL_ID")
        nothing = await http.send(request("GET", "/v1/namespaces/default/topics/none", traceparent=SAMPLED))
        assert nothing.status == 404
        found = await spans_of(receiver, CLAIM, "topic")
    door = found[CLAIM]
    assert refused["trace_id"] == TRACE
    assert [(one.failed, one.attributes["oncegate.code"]) for one in (door, found["topic"])] == [
        (False, "NULL_ID"),
        (False, "NOT_FOUND"),
    ]
    assert door.attributes["http.response.status_code"] == 422


async def test_a_failure_of_the_gateway_is_an_error_of_its_span(receiver: Receiver) -> None:
    async with served(requests_in_flight=1) as http:
        with http.program.gateway.admission.hold(0):
            refused = (await http.send(packed(bytes(16), traceparent=SAMPLED))).problem(503, "OVERLOADED")
        door = (await spans_of(receiver, CLAIM))[CLAIM]
    assert refused["trace_id"] == TRACE
    assert (door.failed, door.attributes["error.type"]) == (True, "OVERLOADED")


async def test_a_caller_that_does_not_record_its_trace_has_no_span_here(receiver: Receiver) -> None:
    async with served() as http:
        assert (await http.send(packed(bytes(16), traceparent=UNSAMPLED))).status == 200
        assert (await http.send(packed(bytes(16), traceparent=f"00-{'b' * 32}-{CALLER}-01"))).status == 200
        await spans_of(receiver, CLAIM, trace_id="b" * 32)
    assert receiver.of(TRACE) == []


async def test_a_request_without_a_trace_begins_one_and_its_problem_names_it(receiver: Receiver) -> None:
    async with served() as http:
        refused = (await http.send(claim_json(json.dumps({"ids": [1]}).encode()))).problem(400, "BAD_REQUEST")
        door = (await spans_of(receiver, CLAIM, trace_id=refused["trace_id"]))[CLAIM]
    assert door.parent_id == ""


async def test_probes_and_scrapes_are_no_spans(receiver: Receiver) -> None:
    async with served() as http:
        for path in ("/healthz/live", "/healthz/ready", "/metrics"):
            assert (await http.send(request("GET", path, traceparent=SAMPLED))).status == 200
        await http.send(request("GET", "/v1/limits", traceparent=f"00-{'c' * 32}-{CALLER}-01"))
        await spans_of(receiver, "GET /v1/limits", trace_id="c" * 32)
    assert receiver.of(TRACE) == []


async def test_a_call_over_grpc_is_one_span_below_its_caller_and_the_append_is_below_the_claim(
    receiver: Receiver,
) -> None:
    async with both() as program:
        await program.claim(bytes(16))  # this begins a trace of its own
        sent = pb.ClaimRequest(namespace="default", token=bytes(16), call=1, packed=bytes([1]) * 16)
        await program.call("Claim", sent, metadata=(("traceparent", SAMPLED),))
        found = await spans_of(receiver, RPC, "claim", "group commit", "append")
    assert (found[RPC].parent_id, found[RPC].kind) == (CALLER, SERVER)
    assert is_below(found["claim"], found[RPC])
    assert found["group commit"].parent_id == found["claim"].span_id
    assert found[RPC].attributes == {"rpc.system.name": "grpc", "rpc.method": RPC, "oncegate.namespace": "default"}


async def test_each_request_of_a_stream_is_a_span_below_the_streams_caller(receiver: Receiver) -> None:
    async with both() as program:
        stream = program.channel.stream_stream(
            PATHS["StreamClaims"], lambda sent: sent.SerializeToString(), pb.StreamClaimsResponse.FromString
        )
        claims = [
            pb.ClaimRequest(namespace="default", token=bytes(16), call=n, packed=bytes([n]) * 16) for n in range(3)
        ]
        sent = [pb.StreamClaimsRequest(claim=claim) for claim in claims]
        answers = [one async for one in stream(iter(sent), metadata=(("traceparent", SAMPLED),), timeout=20)]
        assert len(answers) == 3
        name = "oncegate.v1.ClaimService/StreamClaims"
        await spans_of(receiver, name)
    of_stream = [span for span in receiver.of(TRACE) if span.name == name]
    assert [span.parent_id for span in of_stream] == [CALLER] * 3


async def test_a_refusal_over_grpc_names_the_callers_trace() -> None:
    async with both() as program:
        sent = pb.ClaimRequest(namespace="nowhere", token=bytes(16), call=0, packed=bytes(16))
        refused = await program.refused("Claim", sent, metadata=(("traceparent", SAMPLED),))
    assert refused.info.metadata["trace_id"] == TRACE


async def test_spans_go_out_over_grpc_if_the_variables_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_over_grpc() as receiver:
        for name, value in receiver.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "dedup-west")
        async with served() as http:
            assert (await http.send(packed(bytes(16), traceparent=SAMPLED))).status == 200
        # Remaining spans are sent before the gateway ends.
        assert receiver.wait_for(CLAIM, trace_id=TRACE)[CLAIM].service == "dedup-west"
