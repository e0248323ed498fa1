"""The HTTP application in this process, over a ledger in memory: called by ASGI or over a real socket."""

import asyncio
import io
import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from fastapi import FastAPI

from oncegate.app import Program, running
from oncegate.clock import SystemClock
from oncegate.engine.gateway import Gateway, open_gateway
from oncegate.engine.limits import Limits
from oncegate.ledgers import open_ledgers
from oncegate.runs import run_folders
from oncegate.runtime.logging import LogObserver, open_log
from oncegate.settings import Settings, load
from oncegate.transports.http.app import About, create_app

JSON = "application/json"
PACKED = "application/vnd.oncegate.packed"
ARROW = "application/vnd.apache.arrow.stream"
CLAIM = "/v1/namespaces/default/ids:claim"


def token() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def problem(self, status: int, code: str) -> Any:
        """Returns the problem document after checking its mandatory members."""
        assert (self.status, self.headers["content-type"]) == (status, "application/problem+json"), self.body
        found = self.json
        assert (found["status"], found["code"]) == (status, code), found
        assert found["action"] in {"retry", "fix", "stop"}
        assert found["effect"] in {"none", "unknown"}
        assert found["title"]
        assert found["detail"]
        assert found["type"] == "/errors/" + code.lower().replace("_", "-")
        assert len(found["trace_id"]) == 32
        return found


@dataclass(frozen=True)
class Http:
    """The application over a gateway, called without a socket."""

    app: FastAPI
    gateway: Gateway
    log: io.StringIO

    @property
    def position(self) -> int:
        return self.gateway.namespace("default").mark.position

    async def call(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        given = dict(headers or {})
        if body is not None:
            given.setdefault("Content-Length", str(len(body)))
        return await asgi(self.app, method, path, body or b"", given)

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.call("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})

    async def post_json(self, path: str, message: object, headers: Mapping[str, str] | None = None) -> Reply:
        return await self.call("POST", path, json.dumps(message).encode(), {"Content-Type": JSON, **(headers or {})})

    async def post_raw(self, path: str, media: str, body: bytes, headers: Mapping[str, str] | None = None) -> Reply:
        named = {"Content-Type": media} | ({} if path.endswith(":take") or media == JSON else attempt())
        if ":stage" in path:
            del named["Oncegate-Call"]
        return await self.call("POST", path, body, {**named, **(headers or {})})

    async def claim(self, *ids: object, call: int = 0, as_token: str | None = None) -> Any:
        reply = await self.post_json(CLAIM, {"token": as_token or token(), "call": call, "ids": list(ids)})
        assert reply.status == 200, reply.body
        return reply.json


def breaking(monkeypatch: pytest.MonkeyPatch, path: str, endpoint: Any) -> None:
    """Replaces the endpoint of a route for all of its methods."""
    from oncegate.transports.http.routes import TABLE  # an older version has none: `make versions`

    changed = [replace(route, endpoint=endpoint) if route.path == path else route for route in TABLE.routes]
    by_method = {name: [route for route in changed if route.method == name] for name in TABLE.by_method}
    monkeypatch.setattr(TABLE, "by_method", by_method)


def attempt() -> dict[str, str]:
    """Returns the headers of an attempt's first request."""
    return {"Oncegate-Token": token(), "Oncegate-Call": "0"}


@asynccontextmanager
async def open_http(limits: Limits | None = None, url: str = "memory:") -> AsyncIterator[Http]:
    log = io.StringIO()
    observer = LogObserver(open_log("text", log))
    async with (
        open_ledgers(url, create=True) as ledgers,
        open_gateway(ledgers, run_folders(url), SystemClock(), observer, limits) as gateway,
    ):
        await gateway.create("default")
        yield Http(create_app(observer, About(url, "5f1d8c0a2b3e4f60"), gateway), gateway, log)


async def asgi(
    app: FastAPI,
    method: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str] | Sequence[tuple[str, str]],
    raw_path: str | None = None,
) -> Reply:
    """Sends one request through the application with its body in two parts. `raw_path`: the path before decoding."""
    path, _, query = path.partition("?")
    given = [*(headers.items() if isinstance(headers, Mapping) else headers)]
    if not any(name.lower() == "host" for name, _ in given):
        given.append(("Host", "localhost"))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": (quote(path, safe="/%:@!$&'()*+,;=~") if raw_path is None else raw_path).encode(),
        "query_string": query.encode(),
        "root_path": "",
        "scheme": "http",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    parts = [body[: len(body) // 2], body[len(body) // 2 :]]
    sent: list[Any] = []

    async def receive() -> Any:
        if not parts:  # the caller waits for its answer
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    named = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return Reply(sent[0]["status"], named, b"".join(message.get("body", b"") for message in sent[1:]))


def settings(**flags: Any) -> Settings:
    return load(**{"ledger": "memory:", "port": 0, **flags})


@dataclass(frozen=True)
class Served:
    """The whole program, listening on 127.0.0.1."""

    program: Program
    log: io.StringIO

    @property
    def position(self) -> int:
        return self.program.gateway.namespace("default").mark.position

    async def send(self, *pieces: bytes, end: bool = False) -> Reply:
        """Sends raw bytes on a new connection. `end`: closes the sending side after them."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.program.port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if end:
                writer.write_eof()
            return await asyncio.wait_for(read_reply(reader), 20)
        finally:
            writer.close()


@asynccontextmanager
async def served(**flags: Any) -> AsyncIterator[Served]:
    log = io.StringIO()
    async with running(settings(**flags), open_log("text", log)) as program:
        yield Served(program, log)


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    return Reply(int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"])))


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """Encodes a request; a header of "" is omitted."""
    named = {"Host": "localhost", "Content-Length": str(len(body))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in named.items() if value]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + body


def stream(*batches: Any, schema: Any = None, **options: Any) -> bytes:
    """Encodes record batches as one Arrow IPC stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(
        sink, batches[0].schema if schema is None else schema, options=pa.ipc.IpcWriteOptions(**options)
    ) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
