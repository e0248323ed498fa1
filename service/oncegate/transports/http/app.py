"""The HTTP transport: a FastAPI application over one gateway, which may still be opening.

Each request has a trace id, in problems and in the log: the caller's `traceparent` (W3C), or one made here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncegate.engine.gateway import Gateway
from oncegate.engine.metrics.reader import MetricsReader
from oncegate.ports import Observer
from oncegate.ports.tracing import Tracer
from oncegate.transports.access.access import Access
from oncegate.transports.http import problems
from oncegate.transports.http.gate import Gate
from oncegate.transports.http.openapi import document
from oncegate.transports.http.routes import batches, claims, lanes, operator, producers, service, topics
from oncegate.transports.http.tracing import UNTRACED, http_span, note_route, noting_status
from oncegate.transports.promises import CREDENTIALS
from oncegate.transports.tracing import trace_id_of


@dataclass(frozen=True)
class About:
    """What is told of the program: the ledger's URL, the fingerprint of the semantic settings.

    `hosts`: its names beside loopback's. `credentials`: which are asked for.
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
    """Makes the application; `app.state.gateway` may be set later, until then everything answers RECOVERING.

    `access`: who may call what; None: whoever reaches the gateway may call everything. `tracer`: None: no request is
    traced; the framework never traces by itself, for it would record queries, and ids are in some.
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
    for routes in (claims, lanes, topics, batches, service, producers, operator):
        app.include_router(routes.router)
    problems.install(app, observer)
    app.add_middleware(Traced, observer=observer, gate=app.state.gate, tracer=tracer)
    document.install(app)
    return app


class Traced:
    """Gives each request a trace id, the caller's if it brings one.

    It answers what the gate refuses, and what nobody expected.
    """

    def __init__(self, app: ASGIApp, observer: Observer, gate: Gate, tracer: Tracer | None) -> None:
        self._app = app
        self._tracer = tracer
        self._gate = gate
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._tracer is None or scope["path"].startswith(UNTRACED):
            await self._answer(scope, receive, send)
        else:
            with http_span(self._tracer, scope["method"], scope["headers"]) as span:
                await self._answer(scope, receive, send if span is None else noting_status(span, send))
                if span is not None:
                    note_route(span, scope)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        trace_id = scope.setdefault("state", {})["trace_id"] = trace_id_of(scope["headers"])
        scope["state"]["method"] = scope["method"]
        is_head, begun = scope["method"] == "HEAD", False
        if is_head:  # answered as GET is, but for the body (RFC 9110, 9.3.2)
            scope = {**scope, "method": "GET"}

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = True
            has_body = is_head and message["type"] == "http.response.body"
            await send({**message, "body": b""} if has_body else message)

        try:
            if (refusal := self._gate.refusal(scope)) is not None:
                raise refusal
            await self._app(scope, receive, watched)
        except Exception as error:
            answer = problems.answer(error, scope["path"], trace_id, self._observer)
            if begun:
                raise
            await answer(scope, receive, watched)
