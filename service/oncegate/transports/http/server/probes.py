"""Serves health probes on a separate port, which needs no TLS and answers even when the main port is full."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from oncegate.clock import now_s
from oncegate.core.errors import NotFound
from oncegate.transports.http import problems
from oncegate.transports.http.server.protocol import HttpServer, Protocol
from oncegate.transports.tracing import trace_id_of

# A kubelet sends three probes, each load balancer another. Descriptors for all are reserved (`runtime.descriptors`).
CONNECTIONS = 8
PATHS = frozenset({"/healthz/live", "/healthz/ready", "/healthz/startup"})


class Probes:
    """An ASGI application that forwards probes and rejects every other path."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self.state = app, app.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PATHS:
            await self._app(scope, receive, send)
            return
        refusal = NotFound(f"this port serves only {', '.join(sorted(PATHS))}; send other requests to the main port")
        await problems.response(refusal, trace_id_of(scope["headers"]))(scope, receive, send)


class ProbeProtocol(Protocol):
    """A probe's connection. A connection beyond the limit closes the oldest idle one."""

    keep_alive_s = 5
    accepted_per_turn, makes_room = 1, True
    _made_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts the connection; at the limit, aborts the oldest idle one first."""
        self._made_s = now_s()
        if len(self.connections) >= self.connections_max:
            oldest = min(self.connections, key=_order)
            self.connections.discard(oldest)
            oldest.transport.abort()
        super().connection_made(transport)

    @property
    def order(self) -> tuple[bool, float]:
        """Returns the sort key of eviction: idle connections first, then the oldest."""
        return (self.cycle is not None and not self.cycle.response_complete, self._made_s)


def _order(connection: object) -> tuple[bool, float]:
    assert isinstance(connection, ProbeProtocol)
    return connection.order


@asynccontextmanager
async def probed(app: FastAPI, sock: socket.socket, shutdown_ms: int) -> AsyncIterator[HttpServer]:
    """Serves the application's probes on a bound socket over plain HTTP until the context ends."""
    server = HttpServer(Probes(app), shutdown_ms, CONNECTIONS, CONNECTIONS, protocol=ProbeProtocol)
    server.begin(sock)
    try:
        yield server
    finally:
        await server.drain()
