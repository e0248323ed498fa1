"""More requests than can be answered in time: refused at once over HTTP and gRPC, completely, while probes are
answered."""

import asyncio
import json

import grpc
import pytest

from oncegate.engine.admission import QUEUE_REQUESTS
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.grpc_app import both
from tests.support.http_app import CLAIM, JSON, Reply, Served, read_reply, request, served
from tests.support.memory_gateway import wait_until
from tests.support.overload import claim, fill, slow

CALLERS = 200
LONG_MS = 100 * QUEUE_REQUESTS


async def at_once(http: Served, raws: list[bytes]) -> list[Reply]:
    """Sends each request on a connection of its own, all before an answer is read."""
    port = http.program.port
    opened = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in raws))
    for (_, writer), raw in zip(opened, raws, strict=True):
        writer.write(raw)
    try:
        return await asyncio.wait_for(asyncio.gather(*(read_reply(reader) for reader, _ in opened)), 60)
    finally:
        for _, writer in opened:
            writer.close()


async def test_callers_beyond_what_can_be_answered_in_time_are_refused_at_once_and_each_is_answered() -> None:
    async with served() as http:
        backlog = slow(http)
        raws = [request("POST", CLAIM, claim(str(number)), Content_Type=JSON) for number in range(CALLERS)]
        before = http.position
        replies = await at_once(http, raws)
        refused = [reply for reply in replies if reply.status != 200]
        for reply in refused:
            problem = reply.problem(503, "OVERLOADED")
            assert (problem["action"], problem["effect"]) == ("retry", "none")
            assert problem["retry_after_ms"] >= 1
            assert int(reply.headers["retry-after"]) >= 1
        assert len(replies) - len(refused) >= QUEUE_REQUESTS
        assert len(refused) == http.program.gateway.admission.refused > 0
        assert http.position > before
        assert (backlog.requests, http.program.gateway.admission.requests) == (0, 0)
        again = await at_once(http, [raws[0]])
        assert again[0].status == 200


async def test_a_burst_whose_callers_wait_long_enough_is_answered_and_none_of_it_refused() -> None:
    async with served() as http:
        slow(http)
        raws = [
            request("POST", CLAIM, claim(str(number)), Content_Type=JSON, Oncegate_Timeout_Ms="60000")
            for number in range(CALLERS)
        ]
        assert {reply.status for reply in await at_once(http, raws)} == {200}


async def test_probes_metrics_and_other_namespaces_are_answered_while_one_refuses() -> None:
    async with served() as http:
        assert (await http.send(request("PUT", "/v1/namespaces/other", b"{}", Content_Type=JSON))).status in (200, 201)
        fill(http)
        (await http.send(request("POST", CLAIM, claim(), Content_Type=JSON))).problem(503, "OVERLOADED")
        for path in ("/healthz/live", "/healthz/ready", "/healthz/startup", "/metrics"):
            assert (await http.send(request("GET", path))).status == 200
        other = request("POST", CLAIM.replace("default", "other"), claim(), Content_Type=JSON)
        assert (await http.send(other)).status == 200


async def test_settling_a_claim_is_not_refused_over_http_or_grpc() -> None:
    async with both() as doors:
        granted = (await doors.http.send(request("POST", CLAIM, claim(), Content_Type=JSON))).json
        other = await doors.claim(b"a" * 16)
        fill(doors.http)
        path = f"/v1/namespaces/default/claims/{granted['claim']}"
        for verb, body in (("renew", b""), ("complete", json.dumps({"result": "YQ=="}).encode())):
            sent = request("POST", f"{path}:{verb}", body, Content_Type=JSON if body else "")
            assert (await doors.http.send(sent)).status == 200
        for name, kind in (("Renew", pb.RenewRequest), ("Complete", pb.CompleteRequest)):
            assert await doors.call(name, kind(namespace="default", claim=other.claim))


@pytest.mark.parametrize("waits_ms", [None, 1_000])
async def test_over_grpc_the_same_requests_are_refused_with_a_time_to_come_again(waits_ms: int | None) -> None:
    async with both() as doors:
        backlog, before = fill(doors.http), doors.http.position
        message = pb.ClaimRequest(namespace="default", token=bytes(16), call=0, packed=b"a" * 16)
        refusal = await doors.refused("Claim", message, timeout=None if waits_ms is None else waits_ms / 1_000)
        assert refusal.code == grpc.StatusCode.UNAVAILABLE
        assert refusal.members == ("OVERLOADED", "retry", "none", LONG_MS)
        assert (doors.http.position, backlog.requests) == (before, QUEUE_REQUESTS)
        assert (await doors.call("Claim", message, timeout=60)).verdicts
        await wait_until(lambda: backlog.requests == QUEUE_REQUESTS)
