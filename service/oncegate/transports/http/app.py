"""The FastAPI application over one gateway, which may still be starting.

Problems and log lines carry the trace id of the request: the caller's `traceparent` (W3C), or a generated one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.datastructures import State
from starlette.types import ASGIApp, Receive, Scope, Send

from oncegate.core.errors import MethodNotAllowed
from oncegate.engine.gateway import Gateway
from oncegate.engine.metrics.reader import MetricsReader
from oncegate.ports import Observer
from oncegate.ports.tracing import Tracer
from oncegate.transports.access.access import Access
from oncegate.transports.http import problems
from oncegate.transports.http.call import Call
from oncegate.transports.http.parameters import Gate
from oncegate.transports.http.routes import TABLE
from oncegate.transports.http.routing import respond
from oncegate.transports.http.tracing import UNTRACED, http_span, note_route, noting_status
from oncegate.transports.promises import CREDENTIALS
from oncegate.transports.tracing import trace_id_of


@dataclass(frozen=True)
class About:
    """Facts about the program: the ledger's URL and the fingerprint of the semantic settings.

    `hosts`: host names that the gateway accepts in addition to loopback. `credentials`: the kind it requires.
    """

    ledger: str
    semantics: str
    hosts: Sequence[str] = ()
    credentials: str = CREDENTIALS


def create_app(
    observer: Observer,
    about: About,
    gateway: Gateway | None = None,
    access: Access | None = None,
    tracer: Tracer | None = None,
) -> FastAPI:
    """Creates the application. `app.state.gateway` may be set later; until then every request fails with RECOVERING.

    Args:
        access: the callers' rights; None: every caller may call everything.
        tracer: None: requests are not traced. The framework's own tracing is off: it would record query strings, and
            some contain ids.
    """
    app = FastAPI(
        title="Oncegate",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url=None,
        telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
    )
    app.state.gateway = gateway
    app.state.about = about
    app.state.access = access
    app.state.tracer = tracer
    app.state.gate = Gate(about.hosts)
    app.state.observer = observer
    app.state.metrics = MetricsReader()
    app.add_middleware(Door, state=app.state)
    return app


class Door:
    """ASGI middleware that routes every request by the route table and converts errors to problem documents.

    Plain requests bypass it and reach the same routes through `server.fast_path`.
    """

    def __init__(self, app: ASGIApp, state: State) -> None:
        self._app, self._state = app, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._state.tracer is None or scope["path"].startswith(UNTRACED):
            await self._answer(scope, receive, send)
        else:
            with http_span(self._state.tracer, scope["method"], scope["headers"]) as span:
                await self._answer(scope, receive, send if span is None else noting_status(span, send))
                if span is not None:
                    note_route(span, scope)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        # HEAD is GET without the body (RFC 9110, 9.3.2).
        path, state, is_head = scope["path"], self._state, scope["method"] == "HEAD"
        try:
            if (refusal := state.gate.refusal(scope)) is not None:
                raise refusal
            if (found := TABLE.route_of("GET" if is_head else scope["method"], path)) is None:
                raise problems.unrouted(path, scope["method"], TABLE.methods_of(path))
            scope["route"], scope["path_params"] = found
            answer = await respond(Call(scope, *found, state, Received(receive)))
        except Exception as error:
            answer = problems.answer(error, path, trace_id_of(scope["headers"]), state.observer)
            if isinstance(error, MethodNotAllowed):
                answer.headers["Allow"] = ", ".join(TABLE.methods_of(path))
        if is_head:
            answer.body = b""
        await answer(scope, receive, send)


class Received:
    """The body of an ASGI request, which can only be received as ASGI messages."""

    fill = None

    def __init__(self, receive: Receive) -> None:
        self.receive = receive

    def take_body(self) -> None:
        """Returns None, since the body still has to be received."""
