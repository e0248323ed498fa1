"""The server under the application: uvicorn, told to speak our errors and to leave signals alone."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from http import HTTPStatus

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oncegate.core.errors import BadRequest
from oncegate.transports.http import direct, problems

# Longer than the pause between two micro-batches, so that writers keep their connection.
KEEP_ALIVE_S = 75


class Protocol(HttpToolsProtocol):
    """Hot routes go straight to their function. What is no HTTP at all is answered by a problem too."""

    def on_headers_complete(self) -> None:
        """Begin the exchange, if this is one; everything out of the ordinary is left to uvicorn and the framework."""
        exchange = self._exchange()
        if exchange is None:
            super().on_headers_complete()
            return
        before, self.cycle = self.cycle, exchange
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def _exchange(self) -> direct.Exchange | None:
        parser = self.parser
        if parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
            return None
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("latin-1")
        route = direct.route_of(path)
        if route is None or b"#" in query or self.expect_100_continue or parser.should_upgrade():
            return None
        scope = self.scope
        scope["method"], scope["path"], scope["raw_path"], scope["query_string"] = "POST", path, raw_path, query
        return direct.Exchange(
            route,
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read; behind a whole request that is being answered, only close after its answer.

        Bytes beyond a body's Content-Length arrive with it: the request itself is good and takes effect.
        """
        if self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body:
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        trace_id = secrets.token_hex(16)
        body = problems.encode(
            BadRequest("this is not an HTTP request that can be read; nothing was written"), trace_id
        )
        status = HTTPStatus.BAD_REQUEST
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {problems.PROBLEM}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


class Server(uvicorn.Server):
    """A server that the program stops; `drain` finishes what was begun."""

    def __init__(self, app: FastAPI, shutdown_ms: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Protocol,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="error",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, shutdown_ms // 1000),
            )
        )
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def begin(self, sock: socket.socket) -> "asyncio.Task[None]":
        self._task = asyncio.create_task(self.serve([sock]), name="http server")
        return self._task

    async def drain(self) -> None:
        """Accept nothing more, answer what is in flight, return when all connections are closed. Idempotent."""
        self.should_exit = True
        if self._task is not None:
            await self._task


@asynccontextmanager
async def listening(app: FastAPI, sock: socket.socket, shutdown_ms: int) -> AsyncIterator[Server]:
    """The application served on a bound socket, drained at the end."""
    server = Server(app, shutdown_ms)
    server.begin(sock)
    try:
        yield server
    finally:
        await server.drain()
