"""The requests that are refused before their connection is made, once requests are refused because of the queue."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI

from oncegate.core.errors import Overloaded
from oncegate.engine.admission import EARLY_CHECKS, QUEUE_REQUESTS
from oncegate.transports.access import keys
from oncegate.transports.access.rights import Role
from oncegate.transports.http.server.shedding import Shedding
from tests.support.http_app import CLAIM, JSON, Reply, Served, read_reply, request, served, token
from tests.support.memory_gateway import run_ready_tasks
from tests.support.overload import claim, fill

TRACE = "0af7651916cd43dd8448eb211c80319c"


def app(http: Served) -> FastAPI:
    """Returns the server's application."""
    found = http.program.server.config.app
    assert isinstance(found, FastAPI)
    return found


def shed(http: Served, raw: bytes) -> bytes | None:
    """Checks a request's bytes as the acceptor does."""
    return Shedding(app(http)).refusal(raw)


def plain(path: str = CLAIM, body: bytes | None = None, **fields: str) -> bytes:
    return request("POST", path, claim() if body is None else body, **{"Content_Type": JSON} | fields)


async def begun_at_once(http: Served, raw: bytes) -> Reply:
    """Sends all but the last bytes before the connection is accepted, and these after some turns of the loop."""
    sock = socket.create_connection(("127.0.0.1", http.program.port))
    sock.sendall(raw[:-5])
    reader, writer = await asyncio.open_connection(sock=sock)
    await run_ready_tasks()
    writer.write(raw[-5:])
    try:
        return await read_reply(reader)
    finally:
        writer.close()


@contextmanager
def nothing_counted(http: Served) -> Iterator[None]:
    admission = http.program.gateway.admission
    refused = admission.refused
    yield
    assert (admission.refused, admission.requests) == (refused, 0)


async def test_a_claim_that_would_wait_too_long_is_refused_with_its_trace_and_counted() -> None:
    async with served() as http:
        fill(http)
        traced = plain(traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
        reply = (shed(http, traced) or b"").decode()
        assert reply.startswith("HTTP/1.1 503 Service Unavailable\r\n")
        assert "retry-after: 2\r\n" in reply
        assert "connection: close\r\n" in reply
        assert '"code":"OVERLOADED"' in reply
        assert f'"trace_id":"{TRACE}"' in reply
        assert http.program.gateway.admission.refused == 1


@pytest.mark.parametrize(
    "raw",
    [
        request("GET", "/healthz/ready"),
        request("GET", "/v1/namespaces/default"),
        plain("/v1/namespaces/default/claims/AAAA:renew", b""),
        plain("/v1/namespaces/default/claims/AAAA:complete"),
        plain("/v1/namespaces/absent/ids:claim"),
        plain("/v1/namespaces/default/batches:commit"),
        plain(Host="elsewhere.example"),
        plain(Origin="http://elsewhere.example"),
        plain(Oncegate_Timeout_Ms="60000"),
        plain(Oncegate_Timeout_Ms="soon"),
        plain(Oncegate_Misspelt="1"),
        plain()[:-1],
        plain() + b"POST",
        plain() + plain(),
        plain().replace(b"HTTP/1.1", b"HTTP/1.0"),
        b"no HTTP at all\r\n\r\n",
    ],
)
async def test_requests_that_are_not_plainly_refused_are_left_to_the_usual_way(raw: bytes) -> None:
    async with served() as http:
        fill(http)
        with nothing_counted(http):
            assert shed(http, raw) is None


async def test_without_a_backlog_nothing_is_shed() -> None:
    async with served() as http:
        with nothing_counted(http):
            assert shed(http, plain()) is None


async def test_connections_are_checked_after_a_refusal_until_a_fixed_number_has_come() -> None:
    async with served() as http:
        shedding, backlog = Shedding(app(http)), fill(http)
        assert not shedding.is_on()
        with pytest.raises(Overloaded):
            http.program.gateway.admission.queue(backlog, None)
        for _ in range(EARLY_CHECKS):
            assert shedding.is_on()
            assert shedding.refusal(request("GET", "/metrics")) is None
        assert not shedding.is_on()
        assert shedding.refusal(plain()) is not None
        assert shedding.is_on()


async def test_a_gateway_that_is_starting_checks_no_connection() -> None:
    async with served() as http:
        state, gateway = app(http).state, http.program.gateway
        gateway.admission.early_checks, state.gateway = EARLY_CHECKS, None
        assert not Shedding(app(http)).is_on()
        state.gateway = gateway
        assert Shedding(app(http)).is_on()


async def test_a_request_that_is_read_before_its_connection_is_made_is_answered_as_any_other() -> None:
    """The first half arrives with the connection, the second one later."""
    async with served() as http:
        http.program.gateway.admission.early_checks = EARLY_CHECKS
        raw = request("POST", CLAIM, claim("whole"), Content_Type=JSON)
        backlog = fill(http)
        assert (await begun_at_once(http, raw)).status == 503
        for _ in range(QUEUE_REQUESTS):
            backlog.leave(0, http.program.gateway.clock.monotonic_ms())
        assert (await begun_at_once(http, raw)).status == 200
        assert http.program.gateway.admission.early_checks == EARLY_CHECKS - 1


async def test_a_caller_without_the_right_key_is_refused_by_that_and_not_by_the_wait(tmp_path: Path) -> None:
    made, text = keys.made("writer", [Role.WRITE], ["*"], 0)
    keys.write(path := tmp_path / "keys.json", [made])
    async with served(keys=path) as http:
        fill(http)
        with nothing_counted(http):
            assert shed(http, plain(Authorization=f"Bearer {token()}")) is None
        assert shed(http, plain(Authorization=f"Bearer {text}")) is not None
