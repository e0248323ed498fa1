"""Connection pool of the asyncio client.

Uses the standard library: each exchange is one request and one reply, which http.client encodes and parses here as in
`sync.connection`. httpx or aiohttp would add half a dozen packages to every executor and nothing that this client
needs.
"""

import asyncio
import http.client
import io
import re
import ssl
from typing import Any

from oncegate_spark.aio.clock import AsyncClock
from oncegate_spark.credentials import Credentials
from oncegate_spark.protocol.address import GatewayAddress, with_key
from oncegate_spark.protocol.calls.steps import Try
from oncegate_spark.protocol.effort import Reply, Request, WireFailure, lower_names

CONNECTIONS_MAX = 8  # with the largest bodies (32 MiB) as much as a gateway buffers at once (256 MiB)
HEAD_BYTES_MAX = 1 << 16  # http.client's limit for a line
_INTERIM = re.compile(rb"HTTP/1\.[01] 1\d\d\b")


class Pool:
    """Performs at most `connections_max` concurrent exchanges with one gateway, for one event loop.

    A connection is closed unless its exchange ended with a complete reply, so that no other call reads the rest of a
    reply after an error, a timeout or a cancellation.
    """

    def __init__(self, url: str, credentials: Credentials, clock: AsyncClock, connections_max: int) -> None:
        self._address = GatewayAddress.of(url, credentials)
        self._credentials = credentials
        self._clock = clock
        self._max = connections_max
        self._free = asyncio.Semaphore(connections_max)
        self._idle: list[_Wire] = []
        self._kept = True
        self._tls: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def exchange(self, step: Try) -> Reply:
        """Sends one request once a connection is free; returns the reply. Raises WireFailure."""
        self._check_loop()
        ends_ms = self._clock.monotonic_ms() + step.left_ms
        try:
            async with asyncio.timeout(step.left_ms / 1000):
                await self._free.acquire()
        except TimeoutError as error:
            raise WireFailure(f"all {self._max} connections were in use", sent=False) from error
        try:
            return await self._exchange(step.request, min(step.timeout_ms, ends_ms - self._clock.monotonic_ms()))
        finally:
            self._free.release()

    async def close(self) -> None:
        """Closes idle connections at once, and busy ones after their exchange."""
        self._kept = False
        idle, self._idle = self._idle, []
        for wire in idle:
            wire.abort()
        for wire in idle:
            await wire.closed.wait()

    async def _exchange(self, request: Request, timeout_ms: int) -> Reply:
        began_ms, wire = self._clock.monotonic_ms(), None
        written = _written(self._address, request, self._credentials)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                wire = self._idle_wire() or await self._connected()
                reading = await wire.exchange(request, written)
                reply = reading.reply(began_ms)
        except (OSError, http.client.HTTPException) as error:
            raise WireFailure.of(error, sent=wire is not None) from error
        finally:
            if wire is not None and not wire.whole:
                wire.abort()
        if self._kept and not wire.ending:
            self._idle.append(wire)
        else:
            wire.abort()
        return reply

    def _check_loop(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise RuntimeError("an AsyncGateway belongs to one event loop: create one per loop; nothing was sent")

    def _idle_wire(self) -> "_Wire | None":
        """Returns the most recently used connection, which the gateway is least likely to be closing."""
        while self._idle:
            wire = self._idle.pop()
            if not wire.ending:
                return wire
        return None

    async def _connected(self) -> "_Wire":
        if self._address.secure and self._tls is None:
            self._tls = self._credentials.tls()
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(_Wire, self._address.host, self._address.port, ssl=self._tls)
        return wire


class Reading:
    """Collects the bytes of a reply and parses it with http.client once it is complete."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._data = bytearray()
        self._head: http.client.HTTPResponse | None = None
        self._body_at = 0
        self._body_end: int | None = None  # known if the head has a Content-Length

    def feed(self, data: bytes) -> bool:
        """Appends received bytes; returns True once the reply is complete. Raises HTTPException for
        an invalid reply.
        """
        self._data += data
        if self._head is None:
            self._pass_interim()
            self._body_at = self._data.find(b"\r\n\r\n") + 4
            if self._body_at < 4:
                if len(self._data) > HEAD_BYTES_MAX:
                    raise http.client.LineTooLong("header")
                return False
            self._head = _response(bytes(self._data[: self._body_at]), self._method)
            if self._head.length is not None:
                self._body_end = self._body_at + self._head.length
        if self._head.chunked:
            return self._data.endswith(b"\r\n\r\n") and self._chunked() is not None
        return self._body_end is not None and len(self._data) >= self._body_end

    def _pass_interim(self) -> None:
        """Drops interim replies before the final one, which this client does not use (RFC 9110, 15.2)."""
        while _INTERIM.match(self._data) and (end := self._data.find(b"\r\n\r\n")) >= 0:
            del self._data[: end + 4]

    def ended(self) -> bool:
        """Returns True if the peer's close ended the reply."""
        return self._head is not None and self._body_end is None and not self._head.chunked

    @property
    def last(self) -> bool:
        """True if the connection cannot be reused."""
        behind = self._body_end is not None and len(self._data) > self._body_end
        return behind or self._head is None or self._head.will_close

    def reply(self, began_ms: int) -> Reply:
        """Returns the complete reply, after `feed` or `ended` returned True. `began_ms`: start of its try."""
        assert self._head is not None
        whole = slice(self._body_at, self._body_end)
        body = self._chunked() if self._head.chunked else bytes(memoryview(self._data)[whole])
        assert body is not None, "the reply is complete"
        return Reply(self._head.status, lower_names(self._head.getheaders()), body, began_ms)

    def _chunked(self) -> bytes | None:
        try:
            return _response(bytes(self._data), self._method).read()
        except http.client.IncompleteRead:
            return None


class _Wire(asyncio.Protocol):
    """One connection. `whole`: no exchange is in progress; `ending`: it cannot be reused."""

    def __init__(self) -> None:
        self.whole = True
        self.ending = False
        self.closed = asyncio.Event()
        self._transport: Any = None
        self._reading: Reading | None = None
        self._done: asyncio.Future[None] | None = None

    async def exchange(self, request: Request, written: list[bytes | memoryview]) -> Reading:
        """Sends a request, encoded as `written`, and reads its reply.

        Raises OSError and HTTPException. The connection must then be closed, as after a cancellation.
        """
        self.whole, self._reading = False, Reading(request.method)
        self._done = asyncio.get_running_loop().create_future()
        for data in written:
            self._transport.write(data)
        await self._done
        self.whole = True
        return self._reading

    def abort(self) -> None:
        self.ending = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._reading is None or self._done is None or self._done.done():
            self.abort()  # unrequested bytes: replies can no longer be matched to requests
            return
        try:
            if self._reading.feed(data):
                self.ending = self._reading.last
                self._done.set_result(None)
        except http.client.HTTPException as error:
            self._done.set_exception(error)

    def connection_lost(self, error: Exception | None) -> None:
        self.ending = True
        self.closed.set()
        if self._done is None or self._done.done():
            return
        if error is None and self._reading is not None and self._reading.ended():
            self._done.set_result(None)
        else:
            self._done.set_exception(error or http.client.RemoteDisconnected("closed before the reply was complete"))


class _Memory:
    """In-memory socket for http.client: records what is sent, and supplies what was received."""

    def __init__(self, received: bytes = b"") -> None:
        self.sent: list[bytes | memoryview] = []
        self._received = received

    def sendall(self, data: bytes | memoryview) -> None:
        self.sent.append(data)

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)

    def close(self) -> None:
        pass


def _written(address: GatewayAddress, request: Request, credentials: Credentials) -> list[bytes | memoryview]:
    connection: Any = http.client.HTTPConnection(address.host, address.port)
    connection.default_port = 443 if address.secure else 80
    connection.sock = memory = _Memory()
    headers = with_key(address, request.headers, credentials)
    connection.request(request.method, address.prefix + request.path, request.body, headers)
    return memory.sent


def _response(data: bytes, method: str) -> http.client.HTTPResponse:
    memory: Any = _Memory(data)
    response = http.client.HTTPResponse(memory, method=method)
    response.begin()
    return response
