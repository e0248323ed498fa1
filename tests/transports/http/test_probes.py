"""The port of probes: three paths in plain HTTP, from before the ledgers are read until after they are closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from oncegate import app as program
from oncegate.core.errors import OncegateError, SettingsError
from oncegate.runtime.process import PROBES
from oncegate.transports.http.server import probes
from tests.support.http_app import Reply, read_reply, request, served

LIVE = request("GET", "/healthz/live")


async def reply_to(port: int | None, raw: bytes) -> Reply:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw)
    try:
        return await asyncio.wait_for(read_reply(reader), 20)
    finally:
        writer.close()


async def test_probes_are_answered_there_and_nothing_else_is() -> None:
    async with served(health_port=0) as http:
        port = http.program.health_port
        for name in ("live", "ready", "startup"):
            reply = await reply_to(port, request("GET", f"/healthz/{name}"))
            assert (reply.status, reply.json["namespaces"]) == (200, {} if name == "live" else {"default": "SERVING"})
        for path in ("/", "/metrics", "/v1/limits", "/healthz", "/healthz/live/", "/v1/namespaces/default", "/console"):
            (await reply_to(port, request("GET", path))).problem(404, "NOT_FOUND")
        (await reply_to(port, request("POST", "/healthz/live"))).problem(405, "METHOD_NOT_ALLOWED")


async def test_a_gateway_has_no_port_of_probes_unless_a_setting_names_one() -> None:
    async with served() as http:
        assert http.program.health_port is None


async def test_one_connection_more_than_there_may_be_ends_the_oldest_that_is_idle() -> None:
    async with served(health_port=0) as http:
        port = http.program.health_port
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(probes.CONNECTIONS)]
        for reader, writer in held:
            writer.write(LIVE)
            assert (await asyncio.wait_for(read_reply(reader), 20)).status == 200
        assert (await reply_to(port, LIVE)).status == 200
        with suppress(ConnectionError):
            assert await asyncio.wait_for(held[0][0].read(), 20) == b""
        last, writer = held[-1]
        writer.write(LIVE)
        assert (await asyncio.wait_for(read_reply(last), 20)).status == 200
        for _, writer in held:
            writer.close()


async def test_probes_are_answered_while_ledgers_are_opened_and_while_they_are_closed(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    seen: dict[str, int] = {}
    opened, close = program.open_gateway, program.Gateway.close

    @asynccontextmanager
    async def opening(*given: Any) -> AsyncIterator[Any]:
        seen["live"] = (await reply_to(unused_tcp_port, LIVE)).status
        seen["startup"] = (await reply_to(unused_tcp_port, request("GET", "/healthz/startup"))).status
        async with opened(*given) as gateway:
            yield gateway

    async def closing(gateway: Any) -> None:
        seen["closing"] = (await reply_to(unused_tcp_port, LIVE)).status
        await close(gateway)

    monkeypatch.setattr(program, "open_gateway", opening)
    monkeypatch.setattr(program.Gateway, "close", closing)
    async with served(health_port=unused_tcp_port):
        pass
    assert seen == {"live": 200, "startup": 503, "closing": 200}


async def test_a_port_that_is_taken_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    async with served(health_port=0) as http:
        taken = http.program.health_port
        with pytest.raises((SettingsError, OncegateError), match=f"port {taken} of 127.0.0.1 cannot be had"):
            async with served(ledger=f"log:{tmp_path / 'data'}", health_port=taken):
                pass
    assert not (tmp_path / "data").exists()


def test_as_many_descriptors_are_kept_as_there_may_be_connections_and_one_for_the_port() -> None:
    assert (probes.CONNECTIONS, PROBES) == (8, 8 + 1)
