"""Records spans of HTTP requests, named by route; paths are never recorded, since they may contain an id."""

from contextlib import AbstractContextManager

from starlette.types import Message, Scope, Send

from oncegate.ports.tracing import Attributes, Tracer, TraceSpan
from oncegate.transports.tracing import Fields, request_span

# Polled every few seconds by callers without a trace.
UNTRACED = ("/healthz/", "/metrics")
_NAME_MOST = 64


def http_span(
    tracer: Tracer, method: str, headers: Fields, route: str = "", namespace: str = ""
) -> AbstractContextManager[TraceSpan | None]:
    """Starts the span of a request; its route is given here, or later to `note_route`."""
    name = f"{method} {route}" if route else method
    return request_span(tracer, name, headers, {"http.request.method": method, **_of_route(route, namespace)})


def note_route(span: TraceSpan, scope: Scope) -> None:
    """Names the span by the request's route; leaves it unchanged if no route matched."""
    route, method = getattr(scope.get("route"), "path", ""), scope["state"]["method"]
    if route:
        span.note(_of_route(route, scope.get("path_params", {}).get("namespace", "")), f"{method} {route}")


def note_status(span: TraceSpan, status: int) -> None:
    """Records the response's status; `problems` records the error."""
    span.note({"http.response.status_code": status})


def noting_status(span: TraceSpan, send: Send) -> Send:
    """Wraps `send` so that it records the status of the response."""

    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            note_status(span, message["status"])
        await send(message)

    return noting


def _of_route(route: str, namespace: str) -> Attributes:
    found = {"http.route": route, "oncegate.namespace": namespace[:_NAME_MOST]}
    return {name: value for name, value in found.items() if value}
