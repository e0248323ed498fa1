"""Receives a large body where it is to lie: from the socket into one piece of memory, past the parser.

The parser hands a body on in pieces, each copied five times on its way. Here the system writes into the body itself;
the parser is told nothing of it, so the next request of the connection gets a new one.
"""

import asyncio
from collections.abc import Callable

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle


class Filling(asyncio.BufferedProtocol):
    """Stands in for the connection's protocol until the body of its request is whole, or `stop` is called.

    ended: true once it is whole, false when the connection was lost before; else what `arrived` raised.
    """

    def __init__(
        self, wire: HttpToolsProtocol, cycle: RequestResponseCycle, room: memoryview, arrived: Callable[[int], None]
    ) -> None:
        """Begins with what the parser has handed on; `room` is as long as the body."""
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
        """Reading begins anew: how the bytes come depends on the protocol that it began with."""
        flow = self._wire.flow
        flow.pause_reading()
        self._wire.transport.set_protocol(protocol)
        flow.resume_reading()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the room that is left: never more than the body, so that the next request is not touched."""
        return self._room[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        """Takes note of bytes that came, and hands the connection back with the last of them."""
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
        """Gives the connection back, whole body or not: what came of one is the parser's, as if it had read it."""
        if not self._stands_in or self._wire.transport.is_closing():
            return
        self._stands_in = False
        self._switch(self._wire)
        if self._at > self._first:
            self._wire.data_received(bytes(self._room[self._first : self._at]))

    def eof_received(self) -> None:
        """Implements asyncio's protocol."""
        self._wire.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Implements asyncio's protocol: the parser's is told as well."""
        self._stands_in = False
        self._wire.connection_lost(exc)
        self._end(False)

    def pause_writing(self) -> None:
        """Implements asyncio's protocol."""
        self._wire.pause_writing()

    def resume_writing(self) -> None:
        """Implements asyncio's protocol."""
        self._wire.resume_writing()
