"""The server under the application: uvicorn that answers with our problems and leaves signals alone."""

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
# A handshake of TLS takes two round trips; as long as a body may pause.
HANDSHAKE_S = 5.0
# How long a client is waited for that is told of the end: one that sleeps on its connection never answers.
FAREWELL_S = 1.0
# The server looks at its connections once a second, which is every tenth of uvicorn's ticks.
TICKS, TICK_MS = 10, 1_000
_FRAMING = {b"content-length", b"transfer-encoding"}


class Protocol(HttpToolsProtocol):
    """Serves HTTP as uvicorn's protocol does; hot routes go straight to their function, and what is no HTTP is
    answered by a problem.

    A connection on which no request is being answered is closed after a while, whether none was begun or its head
    comes a byte at a time; and one whose head does not end, at `HEAD_BYTES`.
    """

    # How many may be open; `Server` sets it.
    connections_max = 4_096
    keep_alive_s = KEEP_ALIVE_S
    # How many are accepted at once; and whether one beyond `connections_max` ends another.
    accepted_per_turn, makes_room = ACCEPTED_PER_TURN, False
    _idle_since = 0.0
    # The last head that is whole; the one that is not, and how much has come of it; a head that is only repeated.
    _headed: object = None
    _begun: object = None
    _head_bytes = 0
    _goes_on = False
    # Whether a request is being answered; and what is held for an answer that its caller does not read.
    _answering = False
    _unread: Room | None = None
    # Why no request is served here; and the timer of a connection that is only read until its caller closes it.
    _full: Overloaded | None = None
    # What was read of the connection before it was made.
    begun = b""
    _lingering: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins a connection: it is idle until its first request."""
        super().connection_made(transport)
        self._is_ours = isinstance(self.app, FastAPI)
        self.ending = closing.LastAnswer(transport, self._close)
        beyond = len(self.connections) - self.connections_max
        if beyond <= 0:
            self._rest()
        else:
            self._full = full(self.connections_max)
            # Answered after its first bytes: clients do not read an answer before they send a request.
            self._lingering = self.loop.call_later(closing.LINGER_S, transport.abort)
        if self.begun:
            self.data_received(self.begun)

    def data_received(self, data: bytes) -> None:
        """Reads what came, and never switches the protocol: that another is offered is passed over (RFC 9110, 7.8)."""
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
        """Feeds the parser. It takes what follows an offer for the other protocol: so a new one reads the body."""
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
            endless = HeadTooLarge(f"a head of more than {HEAD_BYTES} bytes; nothing was written")
            self._refuse(too_long(len(self.url), self.scope["headers"]) or endless)

    def on_headers_complete(self) -> None:
        """Begins the exchange, if this is one; everything out of the ordinary is left to uvicorn and the framework."""
        self._headed = self.scope
        if self._goes_on:
            self._goes_on = False
            return
        if self.url[:1] not in b"/*":
            self._believe_target()
        exchange = self._exchange()
        if exchange is None:
            self.url = self.url[: TARGET_BYTES + 2]  # whose parser takes no more; it is refused all the same
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
        """Puts the host of a target in absolute form in place of `Host`, which counts for nothing (RFC 9112, 3.2.2)."""
        authority = re.split(rb"[/?#]", self.url.partition(b"://")[2], maxsplit=1)[0]
        fields = self.headers  # those of the scope
        fields[:] = [(name, authority if name == b"host" else value) for name, value in fields]

    def _exchange(self) -> fast_path.Exchange | None:
        """Returns the exchange of a plain request for one of the routes; None: it is left to the application."""
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
        """Begins to answer a request, once the answers before it on this connection are taken."""
        if self.flow.write_paused:
            self.flow.pause_reading()
            self.pipeline.append((cycle, app))
            return
        self._answering = True
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        """Counts the bytes that wait to be read in what may be in flight, and writes no more until they are."""
        super().pause_writing()
        gateway = self.app.state.gateway if self._is_ours else None
        if gateway is not None and self._unread is None:
            scope = self.scope if self.cycle is None else self.cycle.scope
            answers: Answers = gateway.admission.answers
            self._unread = answers.hold(sharer_in(scope), self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Goes on with the requests that have waited for their caller to read."""
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
        """Goes on with the next request. The timer of an idle connection is set once and moved on, not set anew."""
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
        """From now on the connection is idle."""
        self._idle_since = now_s()
        if self.timeout_keep_alive_task is None:
            self._look_again(self.timeout_keep_alive)

    def _look_again(self, delay_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(delay_s, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connection if it has been idle for long enough, else look again then; not while it is busy."""
        self.timeout_keep_alive_task = None
        if self.cycle is None or self.cycle.response_complete:
            left_s = self._idle_since + self.timeout_keep_alive - now_s()
            if left_s > 0:
                self._look_again(left_s)
            elif not self.transport.is_closing():
                self.transport.close()

    def shutdown(self) -> None:
        """Closes the connection once nothing is being answered; a body that is not there yet is not waited for."""
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.more_body and not self.pipeline:
            self._refuse(Stopping("the gateway is being stopped before the body was there; nothing was written"))
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends a connection, and its timer with it."""
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        self._taken()
        if self._lingering is not None:
            self._lingering.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuses what cannot be read as HTTP."""
        self._refuse(BadRequest("this is not an HTTP request that can be read; nothing was written"))

    def _refuse(self, error: OncegateError) -> None:
        """Answer and close; where a request is being answered, only close after its answer and those that wait.

        Bytes beyond a body's Content-Length arrive with it: the request itself is good and takes effect.
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
        """Closes the connection after its last answer; where its request has not come whole, reads on for a while."""
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
    """Returns the refusal of a connection beyond `connections_max`."""
    return Overloaded(f"{connections_max} connections are open; nothing was written")


def refused_max(connections_max: int) -> int:
    """Returns how many connections beyond those that are served are told so, each until it has heard it."""
    return -(-connections_max // 8)


class HttpServer(uvicorn.Server):
    """A server that the program stops; `drain` finishes what was begun."""

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
        """Begins to listen. Nobody holds a connection by a handshake that does not end."""
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
        """Tells whether one connection more is served, or is refused once it has asked."""
        most = self._connections_max + refused_max(self._connections_max)
        return self._protocol.makes_room or len(self.server_state.connections) + making < most

    def _full(self) -> bytes:
        return closing.refusal(full(self._connections_max))

    async def on_tick(self, counter: int) -> bool:
        """Cuts off, once a second, whose callers have taken no byte of what waits for them for too long."""
        if counter % TICKS == 0:
            self._unread = closing.looked_at(self.server_state, self._unread)
            if cut := closing.cut_off(self._unread, self._unread_looks):
                self._app.state.observer.event("readers_cut", connections=cut)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts nothing more, and ends all connections; whom it cut off is one log line, `connections_cut`."""
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
        """Begins to serve a bound socket; the task ends when the server is drained."""
        self._task = asyncio.create_task(self.serve([sock]), name="http server")
        return self._task

    async def drain(self) -> None:
        """Accepts nothing more, answers what is in flight, returns when all connections are closed. Idempotent."""
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
    """Serves the application on a bound socket, over TLS where there are certificates, and drains it at the end.

    A connection beyond `connections_max` is answered OVERLOADED and closed; `backlog` wait to be looked at, at most.
    One whose caller takes no byte of its answers for `unread_ms` is cut off.
    """
    server = HttpServer(app, shutdown_ms, connections_max, backlog, tls, unread_ms)
    server.begin(sock)
    try:
        yield server
    finally:
        await server.drain()
