"""Runs plain requests without the framework: from the parsed head straight to the route, with one write per response.

Routes and checks are those of `app.Door`. The door also serves the requests that are not plain: HTTP/1.0, HEAD,
`Upgrade`, `Expect` and unknown paths.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

from fastapi import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from oncegate.transports.http import problems
from oncegate.transports.http.answers import Answer
from oncegate.transports.http.call import Call, Route
from oncegate.transports.http.routing import respond
from oncegate.transports.http.server.filling import Filling
from oncegate.transports.http.tracing import UNTRACED, http_span, note_status
from oncegate.transports.tracing import trace_id_of

_CLOSE = b"connection: close\r\n"


class Exchange(RequestResponseCycle):
    """A request to a known route and its response; uvicorn's protocol treats it like its own request cycle."""

    def __init__(self, wire: Any, route: Route, path: dict[str, str]) -> None:
        """Sets only those attributes of uvicorn's cycle that the protocol and `receive` use."""
        self.scope, self.transport, self.flow = wire.scope, wire.ending, wire.flow
        self.message_event = asyncio.Event()
        self.keep_alive = wire.parser.should_keep_alive()
        self.body, self.more_body = bytearray(), True
        self.disconnected = self.response_complete = self.waiting_for_100_continue = False
        self._wire, self._route, self._path = wire, route, path

    def take_body(self) -> bytes | None:
        """Returns the whole body and drops it; None while the body is incomplete or the client has disconnected."""
        if self.more_body or self.disconnected:
            return None
        body, self.body = bytes(self.body), bytearray()
        return body

    def fill(self, room: memoryview, arrived: Callable[[int], None]) -> Filling:
        """Receives the body into `room`, bypassing the parser."""
        return Filling(self._wire, self, room, arrived)

    def run_asgi(self, app: Any) -> Any:
        """Returns the coroutine that runs the route and writes its response, in a span where requests are traced.

        No response is written once the client has disconnected.
        """
        tracer = app.state.tracer
        is_untraced = tracer is None or self._route.path.startswith(UNTRACED)
        return self._answered(app.state) if is_untraced else self._traced(app, tracer)

    async def _traced(self, app: Any, tracer: Any) -> None:
        scope, route = self.scope, self._route
        namespace = self._path.get("namespace", "")
        with http_span(tracer, scope["method"], scope["headers"], route.path, namespace) as span:
            status = await self._answered(app.state)
            if span is not None:
                note_status(span, status)

    async def _answered(self, state: Any) -> int:
        """Runs the route, writes its response and returns the status code."""
        scope: Any = self.scope
        try:
            try:
                answer = await respond(Call(scope, self._route, self._path, state, self))
            except Exception as error:
                answer = problems.answer(error, scope["path"], trace_id_of(scope["headers"]), state.observer)
            if self.flow.write_paused:
                await self.flow.drain()
        except BaseException:
            self.transport.close()
            raise
        if not self.disconnected:
            self._write(answer)
        if isinstance(answer, Answer):
            answer.written()
        return answer.status_code

    def _write(self, answer: Response) -> None:
        fields = answer.lines if isinstance(answer, Answer) else lines(answer.raw_headers)
        if _CLOSE in fields:
            self.keep_alive, fields = False, fields.replace(_CLOSE, b"")
        close = b"" if self.keep_alive else _CLOSE
        common = _common_lines(self._wire.server_state.default_headers)
        self.response_complete = True
        self.transport.write(b"".join((STATUS_LINE[answer.status_code], common, fields, close, b"\r\n", answer.body)))
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self._wire.on_response_complete()


def lines(fields: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Encodes header fields, each as one line."""
    return b"".join(b"%b: %b\r\n" % field for field in fields)


_COMMON: list[Any] = [None, b""]


def _common_lines(fields: list[tuple[bytes, bytes]]) -> bytes:
    """Returns the encoded fields of every response. The cache is valid while uvicorn keeps the same list: it makes a
    new one every second, for `Date`."""
    if _COMMON[0] is not fields:
        _COMMON[:] = fields, lines(fields)
    return cast(bytes, _COMMON[1])
