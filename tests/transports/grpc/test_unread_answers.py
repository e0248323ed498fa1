"""Answers over gRPC that their callers do not read: counted until then, and released when the caller disconnects."""

import struct

import pytest

from oncegate.engine.admission import ANSWER_SHARES
from oncegate.engine.limits import Limits
from oncegate.transports.grpc import calls, server
from oncegate.transports.grpc import gateway_pb2 as pb
from tests.support.grpc_app import both
from tests.support.http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, SETTINGS, Peer, call, frame
from tests.support.memory_gateway import wait_until

# Below the initial window of a server: a peer may not send more at once.
IDS = 1_000
CLAIM, STREAM = "/oncegate.v1.ClaimService/Claim", "/oncegate.v1.ClaimService/StreamClaims"
# A peer that offers no window for answers (RFC 9113, 6.5.2).
NO_WINDOW = frame(SETTINGS, 0, 0, struct.pack(">HI", 0x4, 0))
PIECE = 16_000


def call_frames(path: str, body: bytes, stream: int) -> bytes:
    """Encodes a call whose message is split into DATA frames; on a stream it is the first message of many."""
    message = b"\x00" + struct.pack(">I", len(body)) + body
    pieces = [message[at : at + PIECE] for at in range(0, len(message), PIECE)]
    frames = [frame(DATA, 0, stream, piece) for piece in pieces]
    end = [frame(DATA, END_STREAM, stream)] if path == CLAIM else []
    return b"".join([frame(HEADERS, END_HEADERS, stream, call(path)), *frames, *end])


def claim(count: int, number: int) -> pb.ClaimRequest:
    return pb.ClaimRequest(namespace="default", token=bytes(16), call=number, packed=b"a" * 16 * count)


async def test_answers_that_a_peer_does_not_take_are_counted_and_given_back_when_it_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "SMALL_ANSWER_BYTES", IDS - 1)
    async with both() as doors:
        admission = doors.http.program.gateway.admission
        with Peer(doors.door.port) as peer:
            peer.send(NO_WINDOW)
            peer.send(call_frames(CLAIM, claim(IDS, 0).SerializeToString(), 1))
            await wait_until(lambda: admission.size_bytes >= IDS and admission.requests == 0)
            assert (await doors.claim(b"other" + bytes(11), token=b"o" * 16)).verdicts
            assert admission.size_bytes >= IDS, "it is counted for as long as it is not taken"
        await wait_until(lambda: admission.size_bytes == 0)


async def test_streams_whose_answers_are_not_taken_are_counted_and_given_back_when_the_peer_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "SMALL_ANSWER_BYTES", IDS - 1)
    async with both() as doors:
        admission = doors.http.program.gateway.admission
        with Peer(doors.door.port) as peer:
            peer.send(NO_WINDOW)
            body = pb.StreamClaimsRequest(claim=claim(IDS, 0)).SerializeToString()
            peer.send(call_frames(STREAM, body, 1))
            await wait_until(lambda: admission.size_bytes >= IDS and admission.requests == 0)
            assert (await doors.claim(b"other" + bytes(11), token=b"o" * 16)).verdicts
            assert admission.size_bytes >= IDS, "it is counted for as long as it is not taken"
        await wait_until(lambda: admission.size_bytes == 0)


async def test_large_calls_are_refused_while_their_caller_takes_no_answers_and_small_ones_are_not() -> None:
    async with both() as doors:
        answers = doors.http.program.gateway.admission.answers
        peer = "address ipv4:127.0.0.1"
        room = answers.hold(peer, doors.http.program.gateway.limits.bytes_in_flight // ANSWER_SHARES)
        refusal = await doors.refused("Claim", claim(5_000, 0))
        assert refusal.info.reason == "OVERLOADED"
        assert (await doors.claim(b"small" + bytes(11), token=b"s" * 16)).verdicts
        assert doors.http.position == 2
        room.release()
        assert len((await doors.call("Claim", claim(5_000, 0))).verdicts) == 5_000


def test_a_peer_whose_socket_is_not_read_is_pinged_and_cut_off_in_the_time_of_an_unread_answer() -> None:
    options = dict(server._options(Limits(unread_answer_ms=30_000)))
    assert (options["grpc.keepalive_time_ms"], options["grpc.keepalive_timeout_ms"]) == (20_000, 10_000)
