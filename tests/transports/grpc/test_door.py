"""The gRPC server: cancelled and late calls, a stop during calls, and reflection for tools."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2 as messages

from oncegate.core.verdicts import BY_BYTE
from oncegate.transports.grpc import claims
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.blocked_appends import Gate
from tests.support.grpc_app import Both, both
from tests.support.http_app import JSON, request, served
from tests.support.memory_gateway import wait_until

TOKEN, A = bytes(range(16)), b"a" * 16
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


async def claim_held(doors: Both, gate: Gate) -> "asyncio.Task[Any]":
    pending = asyncio.create_task(doors.claim(A, token=TOKEN))
    await wait_until(lambda: gate.came == 1)
    return pending


def verdicts(answer: Any) -> list[str]:
    return [BY_BYTE[byte].verdict.name for byte in answer.verdicts]


async def test_a_claim_on_its_way_is_answered_while_the_gateway_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    async with both() as doors:
        with Gate(monkeypatch) as gate:
            asked = await claim_held(doors, gate)
            stopping = asyncio.create_task(doors.door.drain(20))
            while await doors.accepts():
                pass
            assert not stopping.done()
        assert verdicts(await asked) == ["GRANTED"]
        await stopping


async def test_a_drained_gateway_refuses_new_work_keeps_no_room_for_it_and_finishes_what_is_open() -> None:
    async with both() as doors:
        admission, claimed = doors.http.program.gateway.admission, await doors.claim(A, token=TOKEN)
        position = doors.http.position
        drain = request("POST", "/v1/gateway:drain", b'{"draining":true,"who":"ada","why":"x"}', Content_Type=JSON)
        assert (await doors.http.send(drain)).status == 200
        refused = {
            "Claim": pb.ClaimRequest(namespace="default", token=TOKEN, call=1, packed=b"b" * 16),
            "RegisterDriver": pb.RegisterDriverRequest(namespace="default", driver="d", token=TOKEN),
        }
        for name, message in refused.items():
            assert (await doors.refused(name, message)).info.reason == "STOPPING"
        assert (admission.requests, admission.size_bytes, doors.http.position) == (0, 0, position + 1)
        done = await doors.call("Complete", pb.CompleteRequest(namespace="default", claim=claimed.claim))
        assert done.settled.settled == 1


async def test_a_call_left_by_its_caller_runs_to_its_end_and_its_retry_gets_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with both() as doors:
        admission = doors.http.program.gateway.admission
        with Gate(monkeypatch) as gate:
            asked = await claim_held(doors, gate)
            asked.cancel()
            for _ in range(3):
                assert await doors.accepts()
            assert admission.requests == 1
        await wait_until(lambda: admission.requests == 0)
        assert doors.http.position == 2
        again = await doors.claim(A, token=TOKEN)
        assert (verdicts(again), len(again.claim), doors.http.position) == (["GRANTED"], 16, 2)


async def test_a_call_not_decided_by_its_deadline_is_never_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    async def late(size: int, work: Any, message: Any, admitted: Any) -> Any:
        await wait_until(lambda: (admitted.deadline.left_ms or 0) <= 0)
        read.append(message)
        return work(message, admitted)

    monkeypatch.setattr(claims, "offload", late)
    async with both() as doors:
        message = pb.ClaimRequest(namespace="default", token=TOKEN, packed=A)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await doors.call("Claim", message, timeout=0.5)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await wait_until(lambda: len(read) == 1 and doors.http.program.gateway.admission.requests == 0)
        assert doors.http.position == 1


@pytest.mark.parametrize("on", [True, False])
async def test_reflection_is_available_only_if_the_setting_allows_it(on: bool) -> None:
    async with both(grpc_reflection=on) as doors:
        ask = doors.channel.stream_stream(
            REFLECTION,
            messages.ServerReflectionRequest.SerializeToString,
            messages.ServerReflectionResponse.FromString,
        )
        asked = ask(iter([messages.ServerReflectionRequest(list_services="")]), timeout=20)
        if on:
            names = [item.name for item in (await asked.read()).list_services_response.service]
            assert {"oncegate.v1.ClaimService", "oncegate.v1.ProducerService"} <= set(names)
        else:
            assert await asked.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_without_the_setting_there_is_no_grpc() -> None:
    async with served() as program:
        assert program.program.grpc is None


async def test_a_commit_names_the_higher_version_that_skips_its_own_and_accepts_its_read_digest() -> None:
    async with both() as doors:

        def asked(version: str, nonce: int, **more: bytes) -> pb.CommitRequest:
            name = pb.BatchName(app="load", version=version, topic="departures")
            return pb.CommitRequest(namespace="default", name=name, nonce=bytes([nonce]) * 16, **more)

        first = await doors.call("Commit", asked("10", 1, digest=b"a" * 32, reads_digest=b"r" * 32))
        assert (first.outcome, first.HasField("higher_version")) == (pb.COMMIT_OUTCOME_COMMITTED, False)
        again = await doors.call("Commit", asked("10", 2, digest=b"b" * 32, reads_digest=b"r" * 32))
        assert again.outcome == pb.COMMIT_OUTCOME_DUPLICATE
        skipped = await doors.call("Commit", asked("9", 3))
        assert (skipped.outcome, skipped.higher_version) == (pb.COMMIT_OUTCOME_DUPLICATE, "10")
