"""Reads a large body from the socket straight into its final buffer, bypassing the HTTP parser.

The parser delivers a body in pieces, each copied five times on the way. Here the kernel writes into the final buffer.
The parser never sees these bytes, so the connection gets a new parser for its next request.
"""

import asyncio
from collections.abc import Callable

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class Filling(asyncio.BufferedProtocol):
    """Replaces a connection's protocol until the request body is complete or `stop` is called.

    ended: true once the body is complete, false if the connection was lost first; raises the exception of `arrived`.
    """

    def __init__(
        self, wire: HttpToolsProtocol, cycle: RequestResponseCycle, room: memoryview, arrived: Callable[[int], None]
    ) -> None:
        """Starts with the bytes that the parser already delivered; `room` has the length of the body."""
        self._wire, self._cycle, self._room, self._arrived = wire, cycle, room, arrived
        self.ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._first = self._at = 0
        self._stands_in = False
        self._begin()

    def _begin(self) -> None:
        body, self._cycle.body = self._cycle.body, bytearray()
        self._first = self._at = len(body)
        self._room[: len(body)] = body
        self._arrived(len(body))
        if self._cycle.disconnected:
            self.ended.set_result(False)
        elif self._at == len(self._room):
            self.ended.set_result(True)
        else:
            self._stands_in = True
            self._switch(self)

    def _switch(self, protocol: asyncio.BaseProtocol) -> None:
        """Replaces the protocol while reading is paused, since asyncio chooses the read method when reading starts."""
        flow = self._wire.flow
        flow.pause_reading()
        self._wire.transport.set_protocol(protocol)
        flow.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the unfilled rest of the buffer, which ends with the body, so that the next request stays in the
        socket.
        """
        return self._room[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        """Counts received bytes; after the last byte of the body, restores the connection's protocol."""
        self._at += nbytes
        try:
            self._arrived(nbytes)
        except Exception as error:
            self._end(error)
            return
        if self._at == len(self._room):
            self._wire.parser = httptools.HttpRequestParser(self._wire)
            self._cycle.more_body = self._stands_in = False
            self._switch(self._wire)
            self._end(True)

    def _end(self, how: bool | Exception) -> None:
        if self.ended.done():
            return
        if isinstance(how, Exception):
            self.ended.set_exception(how)
            self.ended.exception()
        else:
            self.ended.set_result(how)

    def stop(self) -> None:
        """Restores the connection's protocol; an incomplete body is passed to the parser as if it had read it."""
        if not self._stands_in or self._wire.transport.is_closing():
            return
        self._stands_in = False
        self._switch(self._wire)
        if self._at > self._first:
            self._wire.data_received(bytes(self._room[self._first : self._at]))

    def eof_received(self) -> None:
        """Forwards the end of the stream to the connection's protocol."""
        self._wire.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forwards the loss of the connection to its original protocol, and ends the reception with False."""
        self._stands_in = False
        self._wire.connection_lost(exc)
        self._end(False)

    def pause_writing(self) -> None:
        """Forwards backpressure to the connection's protocol."""
        self._wire.pause_writing()

    def resume_writing(self) -> None:
        """Forwards the end of backpressure to the connection's protocol."""
        self._wire.resume_writing()
