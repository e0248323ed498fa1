"""Floods of HTTP/2 at the gRPC port: another connection's calls are answered, and memory does not grow."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil
import pytest

from deploy.ports import free_port
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.server import CALLS_PER_CONNECTION
from tests.support.gateway_process import GatewayProcess
from tests.support.http2_frames import (
    CANCEL,
    CONTINUATION,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    HEADERS,
    PING,
    RST_STREAM,
    Peer,
    call,
    frame,
    literal,
)

pytestmark = pytest.mark.server
CLAIM = "/oncegate.v1.ClaimService/Claim"
RESETS, PINGS, HEADER_BYTES = 20_000, 20_000, 128 << 20
# Without a limit on calls per connection the first flood took 50 MiB.
GROWTH_BYTES = 32 << 20
# Less than was sent: the library's allocator keeps about 50 MiB in any case.
HEAD_GROWTH_BYTES = 80 << 20


class Door:
    """A gateway in a process of its own, and its gRPC port."""

    def __init__(self, process: GatewayProcess, port: int) -> None:
        self.port, self._process = port, psutil.Process(process.pid)

    @property
    def size_bytes(self) -> int:
        found: int = self._process.memory_info().rss
        return found

    def claims(self, count: int) -> int:
        """Claims one id after the other and returns the number of grants."""
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            method = channel.unary_unary(CLAIM, None, pb.ClaimResponse.FromString)
            return sum(len(method(message(), timeout=60).verdicts) for _ in range(count))


def message() -> bytes:
    request = pb.ClaimRequest(namespace="default", token=os.urandom(16), packed=os.urandom(16))
    found: bytes = request.SerializeToString()
    return found


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    port = free_port()
    (folder := tmp_path_factory.mktemp("floods")).joinpath("settings.toml").write_text(f"grpc_port = {port}\n")
    with GatewayProcess(Path(folder), "--config", str(folder / "settings.toml")) as process:
        found = Door(process, port)
        found.claims(50)
        yield found


def test_calls_that_are_begun_and_cancelled_without_end_cost_no_other_client_a_call(door: Door) -> None:
    before, over = door.size_bytes, threading.Event()
    cancelled = CANCEL.to_bytes(4, "big")

    def flood() -> None:
        with Peer(door.port) as peer:
            for stream in range(1, 2 * RESETS, 2):
                begun = frame(HEADERS, END_HEADERS, stream, call(CLAIM))
                if not peer.send(begun + frame(RST_STREAM, 0, stream, cancelled)):
                    break
        over.set()

    flooding = threading.Thread(target=flood)
    flooding.start()
    answered = 0
    while not over.is_set():
        answered += door.claims(10)
    flooding.join()
    assert answered >= 10
    assert door.claims(10) == 10
    assert door.size_bytes - before < GROWTH_BYTES


def test_endless_pings_are_answered_with_enhance_your_calm_and_cut_off(door: Door) -> None:
    with Peer(door.port) as peer:
        for _ in range(PINGS // 100):
            if not peer.send(frame(PING, 0, 0, bytes(8)) * 100):
                break
        assert peer.goaway() == ENHANCE_YOUR_CALM
    assert door.claims(10) == 10


def test_a_head_that_never_ends_fills_no_memory(door: Door) -> None:
    before = door.size_bytes
    with Peer(door.port) as peer:
        peer.send(frame(HEADERS, 0, 1, call(CLAIM)))
        part = frame(CONTINUATION, 0, 1, literal("x", "y" * 16_000))
        for _ in range(HEADER_BYTES // len(part)):
            if not peer.send(part):
                break
        assert door.claims(10) == 10
        assert door.size_bytes - before < HEAD_GROWTH_BYTES


async def test_more_calls_than_a_connection_allows_are_answered_or_get_a_retry(door: Door) -> None:
    left = [message() for _ in range(2 * CALLS_PER_CONNECTION)]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        method = channel.unary_unary(CLAIM, None, pb.ClaimResponse.FromString)
        for _ in range(10):
            found = await asyncio.gather(*(method(one, timeout=60) for one in left), return_exceptions=True)
            left = [one for one, end in zip(left, found, strict=True) if isinstance(end, grpc.aio.AioRpcError)]
            refused = {end.code() for end in found if isinstance(end, grpc.aio.AioRpcError)}
            assert refused <= {grpc.StatusCode.UNAVAILABLE}
            assert {len(one.verdicts) for one in found if not isinstance(one, BaseException)} == {1}
            if not left:
                return
    raise AssertionError(f"{len(left)} calls are refused still")
