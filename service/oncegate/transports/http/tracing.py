"""Spans of HTTP requests, named by their routes: a path may hold an id, so none is recorded."""

from contextlib import AbstractContextManager

from starlette.types import Message, Scope, Send

from oncegate.ports.tracing import Attributes, Tracer, TraceSpan
from oncegate.transports.tracing import Fields, request_span

# Asked every few seconds, by nobody who has a trace.
UNTRACED = ("/healthz/", "/metrics")
_NAME_MOST = 64


def http_span(
    tracer: Tracer, method: str, headers: Fields, route: str = "", namespace: str = ""
) -> AbstractContextManager[TraceSpan | None]:
    """Records a request, whose route is told now or, by `note_route`, once it is found."""
    name = f"{method} {route}" if route else method
    return request_span(tracer, name, headers, {"http.request.method": method, **_of_route(route, namespace)})


def note_route(span: TraceSpan, scope: Scope) -> None:
    """Names a request by the route that the framework found; nothing where there is none."""
    route, method = getattr(scope.get("route"), "path", ""), scope["state"]["method"]
    if route:
        span.note(_of_route(route, scope.get("path_params", {}).get("namespace", "")), f"{method} {route}")


def note_status(span: TraceSpan, status: int) -> None:
    """Says how the request was answered; that it failed, `problems` says."""
    span.note({"http.response.status_code": status})


def noting_status(span: TraceSpan, send: Send) -> Send:
    """Says it of an answer as it is sent."""

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            note_status(span, message["status"])
        await send(message)

    return noting


def _of_route(route: str, namespace: str) -> Attributes:
    found = {"http.route": route, "oncegate.namespace": namespace[:_NAME_MOST]}
    return {name: value for name, value in found.items() if value}
