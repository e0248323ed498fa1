"""Claims on a stream: answers and refusals keep the order of requests, and no stream blocks another."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from oncegate.core.verdicts import BY_BYTE
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc import server, streams
from tests.support.blocked_appends import Gate
from tests.support.grpc_app import PATHS, Both, both, refusal_of
from tests.support.memory_gateway import wait_until

TOKEN, OTHER = bytes(range(16)), bytes(range(16, 32))
A, B = b"a" * 16, b"b" * 16


def opened(doors: Both) -> Any:
    method = doors.channel.stream_stream(
        PATHS["StreamClaims"], lambda sent: sent.SerializeToString(), pb.StreamClaimsResponse.FromString
    )
    return method(timeout=60)


def claim(ids: bytes, call: int = 0, token: bytes = TOKEN, **more: Any) -> pb.StreamClaimsRequest:
    request = pb.ClaimRequest(namespace=more.pop("namespace", "default"), token=token, call=call, packed=ids, **more)
    return pb.StreamClaimsRequest(claim=request)


def summary_of(answer: pb.StreamClaimsResponse) -> str:
    """Returns the first verdict of a claim, the code of a refusal, or the kind of another answer."""
    if answer.WhichOneof("answer") == "claim":
        return BY_BYTE[answer.claim.verdicts[0]].verdict.name
    if answer.WhichOneof("answer") == "refusal":
        info = ErrorInfo()
        assert Status.FromString(answer.refusal).details[0].Unpack(info)
        return str(info.reason)
    return str(answer.WhichOneof("answer"))


async def test_requests_are_answered_in_their_order_with_refusals_among_the_answers() -> None:
    async with both() as doors:
        stream = opened(doors)
        for request in (
            claim(A),
            claim(A[:3], 1),
            claim(B, 2, namespace="none"),
            pb.StreamClaimsRequest(),
            claim(B, 3),
        ):
            await stream.write(request)
        await stream.done_writing()
        answers = [answer async for answer in stream]
        assert [summary_of(one) for one in answers] == ["GRANTED", "BAD_REQUEST", "NOT_FOUND", "BAD_REQUEST", "GRANTED"]
        assert await stream.code() is grpc.StatusCode.OK
        assert answers[-1].mark.count(":") == answers[0].mark.count(":") > 0
        assert [one.mark for one in answers[1:4]] == ["", "", ""]


async def test_a_claim_of_a_stream_is_renewed_completed_and_released_on_it_and_acks_ride_along() -> None:
    async with both() as doors:
        driver = await doors.call(
            "RegisterDriver", pb.RegisterDriverRequest(namespace="default", driver="d", token=TOKEN)
        )
        stream = opened(doors)
        await stream.write(claim(A))
        await stream.write(claim(B, 1))
        first, second = [(await stream.read()).claim.claim for _ in range(2)]
        ack = pb.AckRequest(namespace="default", driver="d", token=TOKEN, epoch=driver.epoch, batch=0)
        for request in (
            pb.StreamClaimsRequest(renew=pb.RenewRequest(namespace="default", claim=first)),
            pb.StreamClaimsRequest(complete=pb.CompleteRequest(namespace="default", claim=first)),
            pb.StreamClaimsRequest(release=pb.ReleaseRequest(namespace="default", claim=second)),
            pb.StreamClaimsRequest(ack=ack),
        ):
            await stream.write(request)
        answers = [await stream.read() for _ in range(4)]
        assert [summary_of(one) for one in answers] == ["renew", "complete", "release", "ack"]
        assert (answers[1].complete.settled.settled, answers[3].ack.batch) == (1, 0)
        again = await doors.claim(A, B, token=OTHER)
        assert [BY_BYTE[byte].verdict.name for byte in again.verdicts] == ["DUPLICATE", "GRANTED"]


async def test_requests_are_read_ahead_while_earlier_ones_commit_and_no_more_than_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 3 * streams.READ_AHEAD
    async with both() as doors:
        admission = doors.http.program.gateway.admission
        stream = opened(doors)
        with Gate(monkeypatch):
            for call in range(asked):
                await stream.write(claim(call.to_bytes(16), call))
            await wait_until(lambda: admission.requests == streams.READ_AHEAD)
            for _ in range(3):
                assert await doors.accepts()
            assert admission.requests == streams.READ_AHEAD
        await stream.done_writing()
        assert [summary_of(answer) async for answer in stream] == ["GRANTED"] * asked


async def test_a_stop_answers_requests_that_were_read_and_reports_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with both() as doors:
        stream, idle = opened(doors), opened(doors)
        await idle.write(claim(B))
        assert summary_of(await idle.read()) == "GRANTED"
        with Gate(monkeypatch) as gate:
            await stream.write(claim(A, 1))
            await wait_until(lambda: gate.came == 1)
            stopping = asyncio.create_task(doors.door.drain(30))
            await refused(idle.read, "STOPPING")
        assert summary_of(await stream.read()) == "GRANTED"
        await refused(stream.read, "STOPPING")
        await asyncio.wait_for(stopping, 20)


async def test_a_claim_whose_stream_was_left_runs_to_its_end_and_its_retry_gets_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with both() as doors:
        admission = doors.http.program.gateway.admission
        with Gate(monkeypatch) as gate:
            stream = opened(doors)
            await stream.write(claim(A))
            await wait_until(lambda: gate.came == 1)
            stream.cancel()
            await wait_until(lambda: not doors.door.streams)
            assert admission.requests == 1
        await wait_until(lambda: admission.requests == 0)
        position = doors.http.position
        again = opened(doors)
        await again.write(claim(A))
        assert (summary_of(await again.read()), doors.http.position) == ("GRANTED", position)


async def test_streams_have_a_limit_of_their_own_and_calls_go_on_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STREAMS", 1)
    async with both(requests_in_flight=1) as doors:
        held = opened(doors)
        await held.write(claim(A))
        assert summary_of(await held.read()) == "GRANTED"
        await refused(opened(doors).read, "OVERLOADED")
        assert len((await doors.claim(B, token=OTHER)).claim) == 16
        held.cancel()
        await wait_until(lambda: not doors.door.streams)
        another = opened(doors)
        await another.write(claim(A))
        assert summary_of(await another.read()) == "GRANTED"


async def test_a_connection_that_is_old_ends_with_its_streams_and_the_next_one_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CONNECTION_AGE_MS", 50)
    monkeypatch.setattr(server, "CONNECTION_GRACE_MS", 50)
    async with both() as doors:
        stream = opened(doors)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        again = opened(doors)
        await again.write(claim(A))
        assert summary_of(await again.read()) == "GRANTED"


async def test_a_message_that_is_too_long_is_refused_unread() -> None:
    async with both() as doors:
        position = doors.http.position
        limit = doors.http.program.gateway.limits.body_bytes + server.MESSAGE_BESIDE_BYTES
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await doors.claim(bytes(limit))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        stream = opened(doors)
        await stream.write(claim(bytes(limit)))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert doors.http.position == position


async def refused(read: Callable[[], Any], reason: str) -> None:
    """Checks that the stream ends with this refusal."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await read()
    assert refusal_of(caught.value).info.reason == reason
