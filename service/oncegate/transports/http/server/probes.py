"""A port for probes alone: it answers however many connections the other one has, and also while TLS asks for keys."""

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

# A kubelet asks three probes, a load balancer or two another; their descriptors are kept (`runtime.descriptors`).
CONNECTIONS = 8
PATHS = frozenset({"/healthz/live", "/healthz/ready", "/healthz/startup"})


class Probes:
    """Passes probes on to the application and refuses every other path."""

    def __init__(self, app: FastAPI) -> None:
        self._app, self.state = app, app.state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["path"] in PATHS:
            await self._app(scope, receive, send)
            return
        refusal = NotFound(f"this port answers {', '.join(sorted(PATHS))} alone; the setting `port` has the rest")
        await problems.response(refusal, trace_id_of(scope["headers"]))(scope, receive, send)


class ProbeProtocol(Protocol):
    """Serves one connection of a probe. One more than there may be ends the oldest that is not being answered."""

    keep_alive_s = 5
    accepted_per_turn, makes_room = 1, True
    _made_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins a connection: a probe is let in whatever others hold."""
        self._made_s = now_s()
        if len(self.connections) >= self.connections_max:
            oldest = min(self.connections, key=_order)
            self.connections.discard(oldest)
            oldest.transport.abort()
        super().connection_made(transport)

    @property
    def order(self) -> tuple[bool, float]:
        """Returns what is ended first: what is not being answered, then what is oldest."""
        return (self.cycle is not None and not self.cycle.response_complete, self._made_s)


def _order(connection: object) -> tuple[bool, float]:
    assert isinstance(connection, ProbeProtocol)
    return connection.order


@asynccontextmanager
async def probed(app: FastAPI, sock: socket.socket, shutdown_ms: int) -> AsyncIterator[HttpServer]:
    """Serves probes of the application on a bound socket, in plain HTTP, until the context ends."""
    server = HttpServer(Probes(app), shutdown_ms, CONNECTIONS, CONNECTIONS, protocol=ProbeProtocol)
    server.begin(sock)
    try:
        yield server
    finally:
        await server.drain()
