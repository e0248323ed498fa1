"""Runs hot routes without a framework in between: from the parsed head to the route, and its answer in one write.

Only the dispatch is shorter. The routes are those that FastAPI serves, with their order of checks, and what they refuse
is the same problem; a path that is not plainly one of theirs is left to the framework.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from fastapi import Request, Response
from starlette.datastructures import Headers
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from oncegate.transports.http import problems
from oncegate.transports.http.outbound import Answer
from oncegate.transports.http.routes import batches, claims, topics
from oncegate.transports.http.server.filling import Filling
from oncegate.transports.http.taking import Endpoint, Taken, unchecked
from oncegate.transports.http.tracing import http_span, note_status
from oncegate.transports.tracing import trace_id_of

# What checks a request's head, what answers it, and its path parameters.
Route = tuple[Taken, Endpoint, dict[str, str]]
Checked = tuple[Taken, Endpoint]

_CLOSE = b"connection: close\r\n"
_PREFIX: Final = ["", "v1", "namespaces"]
_IDS: Final[Mapping[str, Checked]] = {
    "ids:claim": unchecked(claims.claim),
    "ids:take": unchecked(claims.take),
    "ids:lookup": unchecked(claims.look_up),
}
_CLAIMS: Final[Mapping[str, Checked]] = {
    "renew": unchecked(claims.renew),
    "complete": unchecked(claims.complete),
    "release": unchecked(claims.release),
}
_PRODUCE: Final = unchecked(topics.produce)
_STAGE: Final = unchecked(batches.stage)


def route_of(path: str) -> Route | None:
    """Finds the hot route that a POST to this path is for, and its path parameters; None: the framework's."""
    parts = path.split("/")
    if parts[:3] != _PREFIX or "%" in path or "" in parts[3:] or not path.isascii():
        return None
    match parts[3:]:
        case [namespace, verb] if verb in _IDS:
            return *_IDS[verb], {"namespace": namespace}
        case [namespace, "batches:stage"]:
            return *_STAGE, {"namespace": namespace}
        case [namespace, "claims", name]:
            claim, _, verb = name.rpartition(":")
            return (*_CLAIMS[verb], {"namespace": namespace, "claim": claim}) if claim and verb in _CLAIMS else None
        case [namespace, "topics", topic, "records:produce"]:
            return *_PRODUCE, {"namespace": namespace, "topic": topic}
    return None


@lru_cache(maxsize=64)
def _field(name: str) -> bytes:
    return name.lower().encode("latin-1")


class Fields(Headers):
    """Header fields found by their name's hash; the first where there are several, as in the framework's."""

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._list = fields
        self._first = dict(reversed(fields))

    def get(self, name: str, default: Any = None, /) -> Any:
        """Returns the first field of this name as text; `default` where there is none."""
        value = self._first.get(_field(name))
        return default if value is None else value.decode("latin-1")

    def __getitem__(self, name: str) -> str:
        return self._first[_field(name)].decode("latin-1")

    def __contains__(self, name: Any) -> bool:
        return _field(name) in self._first


class Call(Request):
    """The request of an exchange, as FastAPI's routes expect it."""

    # An attribute where the framework has a call: it is asked for a dozen times.
    headers = Fields([])

    def __init__(self, scope: Scope, exchange: "Exchange") -> None:
        receive: Any = exchange.receive
        super().__init__(scope, receive)
        self.headers = Fields(scope["headers"])
        self._exchange = exchange

    @property
    def whole_body(self) -> bytes | None:
        """The body, once, if all of it is here; None: it is to be received."""
        return self._exchange.take_body()

    def fill(self, room: memoryview, arrived: Callable[[int], None]) -> Filling:
        """Receives the body into `room`, which is as long; `arrived` is called with the bytes of each part."""
        return self._exchange.fill(room, arrived)


class Exchange(RequestResponseCycle):
    """One request of a hot route and its answer; for uvicorn's protocol a cycle like any other."""

    def __init__(self, wire: Any, route: Route) -> None:
        """What the protocol and `receive` use of a cycle, and no more."""
        self.scope, self.transport, self.flow = wire.scope, wire.ending, wire.flow
        self.message_event = asyncio.Event()
        self.keep_alive = wire.parser.should_keep_alive()
        self.body, self.more_body = bytearray(), True
        self.disconnected = self.response_complete = self.waiting_for_100_continue = False
        self._wire = wire
        self._route = route

    def take_body(self) -> bytes | None:
        """Returns the whole body and forgets it; None while there is more to come, or nobody waits any more."""
        if self.more_body or self.disconnected:
            return None
        body, self.body = bytes(self.body), bytearray()
        return body

    def fill(self, room: memoryview, arrived: Callable[[int], None]) -> Filling:
        """Receives the body into `room`, past the parser."""
        return Filling(self._wire, self, room, arrived)

    async def run_asgi(self, app: Any) -> None:
        """Runs the route and writes its response, unless the caller has gone away; traced, where requests are."""
        taken, _, parameters = self._route
        if (tracer := app.state.tracer) is None:
            await self._answered(app)
            return
        fields = self.scope["headers"]
        with http_span(tracer, "POST", fields, taken.route, parameters["namespace"]) as span:
            status = await self._answered(app)
            if span is not None:
                note_status(span, status)

    async def _answered(self, app: Any) -> int:
        """Runs the route and writes its response; returns its status."""
        scope: Any = self.scope
        taken, endpoint, scope["path_params"] = self._route
        scope["app"] = app
        try:
            try:
                call = Call(scope, self)
                taken.check(call)
                answer = await endpoint(call)
            except Exception as error:
                trace_id = trace_id_of(scope["headers"])
                answer = problems.answer(error, scope["path"], trace_id, app.state.observer)
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
    """Writes header fields as they are sent."""
    return b"".join(b"%b: %b\r\n" % field for field in fields)


_COMMON: list[Any] = [None, b""]


def _common_lines(fields: list[tuple[bytes, bytes]]) -> bytes:
    """The lines of the fields that every answer has; uvicorn makes a new list when the second changes."""
    if _COMMON[0] is not fields:
        _COMMON[:] = fields, lines(fields)
    return cast(bytes, _COMMON[1])
