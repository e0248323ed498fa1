"""The HTTP server: uvicorn with a fast path, RFC 9457 problems for malformed requests, and no signal handlers."""

import asyncio
import contextlib
import logging
import re
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

import httptools
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from oncegate.clock import now_s
from oncegate.core.errors import BadRequest, HeadTooLarge, OncegateError, Overloaded, Stopping
from oncegate.engine.admission import Answers, Room
from oncegate.engine.limits import Limits
from oncegate.transports.http.call import sharer_in
from oncegate.transports.http.parameters import HEAD_BYTES as HEAD_BYTES
from oncegate.transports.http.parameters import TARGET_BYTES, too_long
from oncegate.transports.http.routes import TABLE
from oncegate.transports.http.server import closing, fast_path
from oncegate.transports.http.server.acceptor import ACCEPTED_PER_TURN, Acceptor
from oncegate.transports.http.server.shedding import Shedding
from oncegate.transports.tls import Tls

# Longer than the pause between two micro-batches, so that writers keep their connection.
KEEP_ALIVE_S = 75
# Timeout of a TLS handshake, which takes two round trips. A body may pause as long.
HANDSHAKE_S = 5.0
# Timeout of the closing TLS handshake: a client that sleeps on its connection never answers.
FAREWELL_S = 1.0
# The server checks its connections once a second, at every tenth of uvicorn's ticks.
TICKS, TICK_MS = 10, 1_000
_FRAMING = {b"content-length", b"transfer-encoding"}


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; plain requests go straight to their route, and malformed ones get a problem.

    An idle connection is closed after `keep_alive_s`. A connection counts as idle until the head of a request is
    complete, even when the head arrives a byte at a time. A head that exceeds `HEAD_BYTES` is refused.
    """

    # Limit of open connections; `HttpServer` sets it.
    connections_max = 4_096
    keep_alive_s = KEEP_ALIVE_S
    # Connections accepted per turn; whether one beyond `connections_max` evicts another.
    accepted_per_turn, makes_room = ACCEPTED_PER_TURN, False
    _idle_since = 0.0
    # Scopes of the last complete head and of the incomplete one, with the bytes received of the latter.
    _headed: object = None
    _begun: object = None
    _head_bytes = 0
    # True while the parser reads the head that `_feed` repeats after an upgrade offer.
    _goes_on = False
    # Whether a request is being processed; the in-flight bytes reserved for unread responses.
    _answering = False
    _unread: Room | None = None
    # The refusal of every request on a connection beyond the limit.
    _full: Overloaded | None = None
    # Bytes read before the connection was set up.
    begun = b""
    # Timer of a connection that is only read until its client closes it.
    _lingering: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the idle timer; beyond the limit, prepares the refusal instead."""
        super().connection_made(transport)
        self._is_ours = isinstance(self.app, FastAPI)
        self.ending = closing.LastAnswer(transport, self._close)
        beyond = len(self.connections) - self.connections_max
        if beyond <= 0:
            self._rest()
        else:
            self._full = full(self.connections_max)
            # Refused only after its first bytes: clients read no response before they send a request.
            self._lingering = self.loop.call_later(closing.LINGER_S, transport.abort)
        if self.begun:
            self.data_received(self.begun)

    def data_received(self, data: bytes) -> None:
        """Parses received bytes. Offers to upgrade the protocol are ignored (RFC 9110, 7.8)."""
        if self._full is not None:
            full, self._full = self._full, None
            self._refuse(full)
        if self._lingering is not None:
            return
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("")
        else:
            if self.scope is not self._headed:
                self._wait_for_head(len(data))

    def _feed(self, data: bytes | memoryview) -> None:
        """Feeds the parser. After an upgrade offer the parser stops, so a new parser reads the body: it is fed a
        minimal head with the same framing first."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as offer:
                data = memoryview(data)[offer.args[0] :]
            framing = [field for field in self.scope["headers"] if field[0] in _FRAMING]
            self.parser, self.cycle.more_body, self._goes_on = httptools.HttpRequestParser(self), True, True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % fast_path.lines(framing))

    def _wait_for_head(self, size_bytes: int) -> None:
        if self._begun is not self.scope:
            self._begun, self._head_bytes = self.scope, 0
        self._head_bytes += size_bytes
        if self._head_bytes > HEAD_BYTES:
            endless = HeadTooLarge(f"the request head exceeds {HEAD_BYTES} bytes; nothing was written")
            self._refuse(too_long(len(self.url), self.scope["headers"]) or endless)

    def on_headers_complete(self) -> None:
        """Starts the exchange of a plain request; uvicorn and the framework handle all other requests."""
        self._headed = self.scope
        if self._goes_on:
            self._goes_on = False
            return
        if self.url[:1] not in b"/*":
            self._believe_target()
        exchange = self._exchange()
        if exchange is None:
            self.url = self.url[: TARGET_BYTES + 2]  # uvicorn's parser accepts no more; still long enough to be refused
            super().on_headers_complete()
            self.cycle.transport = cast(asyncio.Transport, self.ending)
            return
        before, self.cycle = self.cycle, exchange
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def _believe_target(self) -> None:
        """For an absolute-form target, replaces `Host` by the target's authority (RFC 9112, 3.2.2)."""
        authority = re.split(rb"[/?#]", self.url.partition(b"://")[2], maxsplit=1)[0]
        fields = self.headers  # the same list as the scope's
        fields[:] = [(name, authority if name == b"host" else value) for name, value in fields]

    def _exchange(self) -> fast_path.Exchange | None:
        """Returns the exchange of a plain request for a known route; None if the application must handle the
        request.
        """
        parser, url = self.parser, self.url
        if not self._is_ours or self.expect_100_continue or parser.should_upgrade() or b"#" in url:
            return None
        if parser.get_http_version() != "1.1" or not url.isascii():
            return None
        method, (raw_path, _, query) = parser.get_method().decode("ascii"), url.partition(b"?")
        path = raw_path.decode("ascii")
        if "%" in path:
            path = unquote(path)
        if (found := TABLE.route_of(method, path)) is None:
            return None
        scope = self.scope
        scope["method"], scope["path"], scope["raw_path"], scope["query_string"] = method, path, raw_path, query
        if self.app.state.gate.refusal(scope) is not None:
            return None
        return fast_path.Exchange(self, *found)

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Starts a request once the client has read the connection's earlier responses."""
        if self.flow.write_paused:
            self.flow.pause_reading()
            self.pipeline.append((cycle, app))
            return
        self._answering = True
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        """Pauses responses, and counts the unread bytes against the in-flight limit for responses."""
        super().pause_writing()
        gateway = self.app.state.gateway if self._is_ours else None
        if gateway is not None and self._unread is None:
            scope = self.scope if self.cycle is None else self.cycle.scope
            answers: Answers = gateway.admission.answers
            self._unread = answers.hold(sharer_in(scope), self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Starts the requests that waited for the client to read."""
        self._taken()
        super().resume_writing()
        if self.pipeline and not self._answering and not self.transport.is_closing():
            self.flow.resume_reading()
            self._start_asgi_task(*self.pipeline.pop())

    def _taken(self) -> None:
        if self._unread is not None:
            self._unread.release()
            self._unread = None

    def on_response_complete(self) -> None:
        """Starts the next request of the connection, or its idle period."""
        self.server_state.total_requests += 1
        self._answering = False
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._rest()

    def _rest(self) -> None:
        """Starts the idle period. Keeps a running timer: `_close_idle` rearms it, cheaper than one per request."""
        self._idle_since = now_s()
        if self.timeout_keep_alive_task is None:
            self._look_again(self.timeout_keep_alive)

    def _look_again(self, delay_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(delay_s, self._close_idle)

    def _close_idle(self) -> None:
        """Closes the connection if its idle period is over, otherwise rearms the timer; never while it is busy."""
        self.timeout_keep_alive_task = None
        if self.cycle is None or self.cycle.response_complete:
            left_s = self._idle_since + self.timeout_keep_alive - now_s()
            if left_s > 0:
                self._look_again(left_s)
            elif not self.transport.is_closing():
                self.transport.close()

    def shutdown(self) -> None:
        """Closes the connection once running requests have finished; refuses a request whose body is incomplete."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.more_body and not self.pipeline:
            self._refuse(Stopping("the gateway is stopping and the request body is incomplete; nothing was written"))
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the timers of the connection and releases its reservation."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        self._taken()
        if self._lingering is not None:
            self._lingering.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuses bytes that are not HTTP, with a problem instead of uvicorn's plain text."""
        self._refuse(BadRequest("the request is not valid HTTP; nothing was written"))

    def _refuse(self, error: OncegateError) -> None:
        """Sends the refusal and closes the connection.

        While a complete request is running, only closes the connection, after its response and those of pipelined
        requests. Bytes beyond a body's Content-Length arrive together with the body; the request itself is valid and
        takes effect.
        """
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and (self.pipeline or not cycle.more_body):
            cycle.keep_alive = cycle.more_body = False
            cycle.message_event.set()
            self.flow.pause_reading()
            return
        self.transport.write(closing.refusal(error))
        self._linger()

    def _close(self) -> None:
        """Closes the connection after its last response; lingers when its request was not received completely."""
        if (self.cycle is not None and self.cycle.more_body) or self.pipeline or self._goes_on:
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
        self.pipeline.clear()
        self._lingering = closing.linger(self.transport)
        self.flow.resume_reading()


def full(connections_max: int) -> Overloaded:
    return Overloaded(f"{connections_max} connections are open; nothing was written")


def refused_max(connections_max: int) -> int:
    """Returns how many connections above the limit may be open at once in order to be refused."""
    return -(-connections_max // 8)


class HttpServer(uvicorn.Server):
    """A uvicorn server without signal handlers; `drain` stops it once running requests have finished."""

    def __init__(
        self,
        app: Any,
        shutdown_ms: int,
        connections_max: int,
        backlog: int,
        tls: Tls | None = None,
        unread_ms: int = Limits.unread_answer_ms,
        protocol: type[Protocol] = Protocol,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=type("Protocol", (protocol,), {"connections_max": connections_max}),
                backlog=backlog,
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="error",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=protocol.keep_alive_s,
            )
        )
        logging.getLogger("uvicorn.error").addFilter(closing.no_cancellation)
        self._app, self._tls, self._connections_max, self._protocol = app, tls, connections_max, protocol
        self.acceptors: list[Acceptor] = []
        self._within_s, self._unread_looks = shutdown_ms / 1_000, -(-unread_ms // TICK_MS)
        self._task: asyncio.Task[None] | None = None
        self._unread: closing.UnreadBytes = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening on the sockets. An unfinished TLS handshake is ended by a timeout."""
        config, state = self.config, self.lifespan.state
        make = partial(config.http_protocol_class, config=config, server_state=self.server_state, app_state=state)  # type: ignore[call-arg]

        def made(begun: bytes) -> Protocol:
            protocol = cast(Protocol, make())
            protocol.begun = begun
            return protocol

        shedding = Shedding(self._app)
        tls: dict[str, Any] = {}
        if self._tls is not None:
            tls = {
                "ssl": self._tls.context(),
                "ssl_handshake_timeout": HANDSHAKE_S,
                "ssl_shutdown_timeout": FAREWELL_S,
            }
        listen = partial(Acceptor, per_turn=self._protocol.accepted_per_turn, tls=tls)
        self.acceptors = [
            listen(sock, config.backlog, made, self._has_room, self._full, shedding.is_on, shedding.refusal)
            for sock in sockets or []
        ]
        self.started = True

    def _has_room(self, making: int) -> bool:
        """Returns whether one more connection can be accepted, if only to be refused."""
        most = self._connections_max + refused_max(self._connections_max)
        return self._protocol.makes_room or len(self.server_state.connections) + making < most

    def _full(self) -> bytes:
        return closing.refusal(full(self._connections_max))

    async def on_tick(self, counter: int) -> bool:
        """Aborts, once a second, connections whose clients have read no byte for `unread_ms`."""
        if counter % TICKS == 0:
            self._unread = closing.looked_at(self.server_state, self._unread)
            if cut := closing.cut_off(self._unread, self._unread_looks):
                self._app.state.observer.event("readers_cut", connections=cut)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting and drains all connections; logs `connections_cut` if any had to be aborted."""
        for acceptor in self.acceptors:
            acceptor.close()
            await acceptor.wait_closed()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        connections, requests = await closing.answered(self.server_state, self._within_s, lambda: self.force_exit)
        if connections or requests:
            self._app.state.observer.event("connections_cut", connections=connections, requests=requests)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leaves signals to the program."""
        yield

    def begin(self, sock: socket.socket) -> "asyncio.Task[None]":
        """Starts serving a bound socket; the task ends when the server is drained."""
        self._task = asyncio.create_task(self.serve([sock]), name="http server")
        return self._task

    async def drain(self) -> None:
        """Stops accepting, finishes requests in flight and returns once all connections are closed. Idempotent."""
        self.should_exit = True
        if self._task is not None:
            await self._task


@asynccontextmanager
async def listening(
    app: FastAPI,
    sock: socket.socket,
    shutdown_ms: int,
    connections_max: int = 4_096,
    backlog: int = 2_048,
    tls: Tls | None = None,
    unread_ms: int = Limits.unread_answer_ms,
) -> AsyncIterator[HttpServer]:
    """Serves the application on a bound socket, over TLS if `tls` is given, and drains it at the end.

    A connection beyond `connections_max` gets OVERLOADED and is closed. At most `backlog` connections wait to be
    accepted. A connection is aborted when its client reads no byte of its responses for `unread_ms`.
    """
    server = HttpServer(app, shutdown_ms, connections_max, backlog, tls, unread_ms)
    server.begin(sock)
    try:
        yield server
    finally:
        await server.drain()
