"""Claims over gRPC: the verdicts and errors are those of HTTP."""

import json
from typing import Any

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2

from oncegate.core.errors import LedgerBehind, MissingStage
from oncegate.core.verdicts import BY_BYTE
from oncegate.transports.decode.identifiers import claim_text
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.errors import CODES, code_of
from oncegate.transports.grpc.methods import SERVICES
from oncegate.transports.outcomes import OutcomeKind, public_errors
from tests.support.grpc_app import Both, both
from tests.support.http_app import CLAIM, JSON, PACKED, Reply, request, stream

TOKEN, OTHER = bytes(range(16)), bytes(range(16, 32))
A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
NS = "/v1/namespaces/default"


def verdicts(answer: Any) -> list[str]:
    return [BY_BYTE[byte].verdict.name for byte in answer.verdicts]


async def over_http(doors: Both, token: bytes, call: int, ids: bytes, **more: str) -> Reply:
    named = {"Oncegate_Token": token.hex(), "Oncegate_Call": str(call)} | more
    return await doors.http.send(request("POST", CLAIM, ids, Content_Type=PACKED, **named))


async def test_an_id_is_granted_then_completed_then_a_duplicate() -> None:
    async with both() as doors:
        first = await doors.claim(A, B, A, token=TOKEN)
        assert (verdicts(first), first.lease_ms) == (["GRANTED", "GRANTED", "SAME"], 30_000)
        assert first.numbers == (2).to_bytes(4, "little") + bytes(4)
        done = (await doors.call("Complete", pb.CompleteRequest(namespace="default", claim=first.claim))).settled
        assert (done.claim, done.state, done.settled) == (first.claim, pb.CLAIM_STATE_DONE, 2)
        assert verdicts(await doors.claim(A, C, token=OTHER)) == ["DUPLICATE", "GRANTED"]


async def test_a_claim_is_renewed_and_released() -> None:
    async with both() as doors:
        claim = (await doors.claim(A, token=TOKEN)).claim
        renewed = (await doors.call("Renew", pb.RenewRequest(namespace="default", claim=claim))).settled
        assert (renewed.state, renewed.lease_ms) == (pb.CLAIM_STATE_OPEN, 30_000)
        assert verdicts(await doors.claim(A, token=OTHER)) == ["BUSY"]
        released = (await doors.call("Release", pb.ReleaseRequest(namespace="default", claim=claim))).settled
        assert (released.state, released.settled) == (pb.CLAIM_STATE_RELEASED, 1)
        assert verdicts(await doors.claim(A, token=OTHER, call=1)) == ["GRANTED"]


async def test_a_claim_over_one_door_is_the_same_claim_over_the_other() -> None:
    async with both() as doors:
        mine = await doors.claim(A, B, A, token=TOKEN)
        again = await over_http(doors, TOKEN, 0, A + B + A)
        assert again.body[:16] == mine.claim
        assert again.body[24:] == mine.verdicts + mine.numbers
        done = await doors.http.send(request("POST", f"{NS}/claims/{claim_text(mine.claim)}:complete"))
        assert done.json["settled"] == 2
        assert verdicts(await doors.claim(A, token=OTHER)) == ["DUPLICATE"]


async def test_ids_as_arrow_are_the_ids_that_http_reads_as_text() -> None:
    async with both() as doors:
        ids = stream(pa.record_batch({"id": ["x", "y"]}))
        message = pb.ClaimRequest(namespace="default", token=TOKEN, arrow=ids)
        assert verdicts(await doors.call("Claim", message)) == ["GRANTED", "GRANTED"]
        body = json.dumps({"token": OTHER.hex(), "call": 0, "ids": ["y"]}).encode()
        assert (await doors.http.send(request("POST", CLAIM, body, Content_Type=JSON))).json["verdicts"][0][
            "verdict"
        ] == "BUSY"


async def test_sets_of_ids_and_batches_count_as_over_http() -> None:
    async with both() as doors:
        await doors.claim(A, token=TOKEN, id_set="invoices")
        assert verdicts(await doors.claim(A, token=TOKEN, call=1)) == ["GRANTED"]
        found = await over_http(doors, OTHER, 0, A, Oncegate_Id_Set="invoices")
        assert found.body[24:25] != b"\x00"
        assert verdicts(await doors.claim(A, token=OTHER, call=1, id_set="invoices")) == ["BUSY"]


# By name: the call, its message, and the same request over HTTP.
REFUSED: dict[str, tuple[str, Any, bytes]] = {
    "no such namespace": (
        "Claim",
        pb.ClaimRequest(namespace="none", token=TOKEN, packed=A),
        request(
            "POST",
            "/v1/namespaces/none/ids:claim",
            A,
            Content_Type=PACKED,
            Oncegate_Token=TOKEN.hex(),
            Oncegate_Call="0",
        ),
    ),
    "half an id": (
        "Claim",
        pb.ClaimRequest(namespace="default", token=TOKEN, packed=A[:8]),
        request("POST", CLAIM, A[:8], Content_Type=PACKED, Oncegate_Token=TOKEN.hex(), Oncegate_Call="0"),
    ),
    "a short token": (
        "Claim",
        pb.ClaimRequest(namespace="default", token=b"abc", packed=A),
        request("POST", CLAIM, A, Content_Type=PACKED, Oncegate_Token="616263", Oncegate_Call="0"),
    ),
    "a batch without its driver": (
        "Claim",
        pb.ClaimRequest(namespace="default", token=TOKEN, packed=A, batch=1),
        request(
            "POST", CLAIM, A, Content_Type=PACKED, Oncegate_Token=TOKEN.hex(), Oncegate_Call="0", Oncegate_Batch="1"
        ),
    ),
    "a lease of no time": (
        "Claim",
        pb.ClaimRequest(namespace="default", token=TOKEN, packed=A, lease_ms=0),
        request(
            "POST", CLAIM, A, Content_Type=PACKED, Oncegate_Token=TOKEN.hex(), Oncegate_Call="0", Oncegate_Lease_Ms="0"
        ),
    ),
    "no such claim": (
        "Complete",
        pb.CompleteRequest(namespace="default", claim=TOKEN),
        request("POST", f"{NS}/claims/{claim_text(TOKEN)}:complete"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_requests_refused_over_http_are_refused_over_grpc_and_in_the_same_words(name: str) -> None:
    method, message, over = REFUSED[name]
    async with both() as doors:
        problem = (await doors.http.send(over)).json
        found = await doors.refused(method, message)
        assert found.members == tuple(problem.get(key) for key in ("code", "action", "effect", "retry_after_ms"))
        assert doors.http.position == 1


async def test_a_token_used_again_for_other_ids_is_refused() -> None:
    async with both() as doors:
        await doors.claim(A, token=TOKEN)
        found = await doors.refused("Claim", pb.ClaimRequest(namespace="default", token=TOKEN, packed=B))
        problem = (await over_http(doors, TOKEN, 0, B)).json
        assert found.members[:3] == (problem["code"], problem["action"], problem["effect"])


async def test_a_gateway_that_is_behind_what_the_caller_saw_refuses_to_decide() -> None:
    async with both() as doors:
        mark = f"{'0' * 32}:9:{'0' * 16}"
        message = pb.ClaimRequest(namespace="default", token=TOKEN, packed=A)
        found = await doors.refused("Claim", message, metadata=(("oncegate-ledger", mark),))
        assert (found.info.reason, found.code) == (LedgerBehind.code, grpc.StatusCode.FAILED_PRECONDITION)
        assert doors.http.position == 1


async def test_each_answer_brings_the_newest_mark() -> None:
    async with both() as doors:
        method = doors.channel.unary_unary("/oncegate.v1.ClaimService/Claim")
        message = pb.ClaimRequest(namespace="default", token=TOKEN, packed=A).SerializeToString()
        asked = method(message, timeout=20)
        await asked
        brought = dict(await asked.trailing_metadata())["oncegate-ledger"]
        assert brought.split(":")[1] == str(doors.http.position) == "2"


async def test_without_room_a_call_gets_a_retry_delay() -> None:
    async with both(bytes_in_flight=8) as doors:
        found = await doors.refused("Claim", pb.ClaimRequest(namespace="default", token=TOKEN, packed=A))
        assert found.members == ("OVERLOADED", "retry", "none", 200)
        assert found.code is grpc.StatusCode.UNAVAILABLE
        assert doors.http.program.gateway.admission.requests == 0


async def test_resources_of_a_call_are_returned_when_it_is_answered_or_refused() -> None:
    async with both() as doors:
        await doors.claim(A, token=TOKEN)
        await doors.refused("Claim", pb.ClaimRequest(namespace="default", token=b"", packed=A))
        admission = doors.http.program.gateway.admission
        assert (admission.requests, admission.size_bytes) == (0, 0)


async def test_bytes_that_are_no_message_are_a_bad_request() -> None:
    async with both() as doors:
        method = doors.channel.unary_unary("/oncegate.v1.ClaimService/Claim")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(b"\xff\xff", timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_probe_answers_for_the_whole_for_each_service_and_for_one_namespace() -> None:
    async with both() as doors:
        check = doors.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        for service in ("", *SERVICES, *(f"{service}/default" for service in SERVICES)):
            found = await check(health_pb2.HealthCheckRequest(service=service), timeout=20)
            assert found.status == health_pb2.HealthCheckResponse.SERVING
        for service in ("none", "none/default", "oncegate.v1.ClaimService/nowhere", "oncegate.v1.ClaimService/"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await check(health_pb2.HealthCheckRequest(service=service), timeout=20)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_each_kind_of_failure_has_a_code() -> None:
    assert set(CODES) == set(OutcomeKind)
    assert all(code_of(error) is not grpc.StatusCode.OK for error in public_errors())
    assert code_of(MissingStage) is grpc.StatusCode.ABORTED


async def test_a_refusal_that_quotes_long_names_keeps_its_code() -> None:
    """The client's library refuses metadata of more than 8 KiB, with a status that hides the refusal."""
    rows = stream(pa.record_batch({"id": ["x"]}))
    async with both() as doors:
        for name in ("n" * 20_000, "é" * 20_000):
            asked = pb.ClaimRequest(namespace=name, token=TOKEN, packed=A)
            assert (await doors.refused("Claim", asked)).members == ("NOT_FOUND", "fix", "none", None)
            produced = pb.ProduceRequest(namespace="default", token=TOKEN, topic="t", arrow=rows, id_col=[name])
            assert (await doors.refused("Produce", produced)).members[1:] == ("fix", "none", None)
