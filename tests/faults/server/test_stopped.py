"""A gateway whose process was stopped for a while, like a suspended machine: the requests that waited meanwhile."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.http_app import CLAIM, JSON, request

pytestmark = pytest.mark.server
DEADLINE_MS = 200


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as gateway:
        yield gateway
        gateway.signal(signal.SIGCONT)


@pytest.fixture
def sockets() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(sockets: ExitStack, gateway: GatewayProcess) -> socket.socket:
    return sockets.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=60))


def answer(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    with HTTPResponse(connection) as reply:
        reply.begin()
        return reply.status, json.loads(reply.read())


def claim(token: str, name: str) -> bytes:
    body = json.dumps({"token": token * 32, "call": 0, "ids": [name]}).encode()
    return request("POST", CLAIM, body, Content_Type=JSON, Oncegate_Timeout_Ms=str(DEADLINE_MS))


def test_what_waited_past_its_deadline_is_dropped_undecided_and_the_rest_is_served(
    gateway: GatewayProcess, sockets: ExitStack
) -> None:
    waiting, unread = connected(sockets, gateway), connected(sockets, gateway)
    begun = claim("a", "waited")
    waiting.sendall(begun[:-1])
    for _ in range(3):  # the gateway has read that head once it answers later requests
        assert gateway.is_ready()
    gateway.signal(signal.SIGSTOP)
    waiting.sendall(begun[-1:])
    unread.sendall(claim("b", "unread"))
    waiting.settimeout(2 * DEADLINE_MS / 1_000)
    with pytest.raises(TimeoutError):
        waiting.recv(1)
    gateway.signal(signal.SIGCONT)
    waiting.settimeout(60)
    status, problem = answer(waiting)
    assert (problem["code"], problem["effect"]) == ("DEADLINE", "none"), (status, problem)
    status, found = answer(unread)
    assert (status, found["verdicts"][0]["verdict"]) == (200, "GRANTED"), "its time begins when it is read"
    again = connected(sockets, gateway)
    again.sendall(claim("c", "waited"))
    status, found = answer(again)
    assert (status, found["verdicts"][0]["verdict"]) == (200, "GRANTED"), "a dropped request holds nothing"
