"""Every error as an RFC 9457 problem document: what happened, and whether to retry, fix or stop."""

from collections.abc import Mapping

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from oncegate.core.errors import BadRequest, MethodNotAllowed, NotFound, OncegateError, Stop
from oncegate.ports import Observer
from oncegate.transports.outcomes import Internal, outcome_of

PROBLEM = "application/problem+json"


def type_of(code: str) -> str:
    """The problem's `type`: a page that this gateway itself serves."""
    return "/errors/" + code.lower().replace("_", "-")


def document(error: OncegateError, trace_id: str) -> dict[str, object]:
    """The members of the problem; `extra` members come after the fixed ones and never replace them."""
    outcome = outcome_of(error)
    fixed: dict[str, object] = {
        "type": type_of(error.code),
        "title": error.title,
        "status": outcome.status,
        "detail": error.detail,
        "code": error.code,
        "action": error.action,
        "effect": outcome.effect,
    }
    if error.retry_after_ms is not None:
        fixed["retry_after_ms"] = error.retry_after_ms
    return fixed | {key: value for key, value in error.extra.items() if key not in fixed} | {"trace_id": trace_id}


def encode(error: OncegateError, trace_id: str) -> bytes:
    return msgspec.json.encode(document(error, trace_id), enc_hook=_plain)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def response(error: OncegateError, trace_id: str, headers: Mapping[str, str] | None = None) -> Response:
    """The problem as an answer, with `Retry-After` in whole seconds where waiting helps."""
    sent = dict(headers or {})
    if error.retry_after_ms is not None:
        sent["Retry-After"] = str(-(-error.retry_after_ms // 1000))
    return Response(encode(error, trace_id), outcome_of(error).status, sent, media_type=PROBLEM)


def of_http(error: HTTPException, request: Request) -> OncegateError:
    """The framework's own refusals in our words."""
    if error.status_code == 404:
        return NotFound(f"there is no {request.url.path} here; GET /openapi.json lists what there is")
    if error.status_code == 405:
        return MethodNotAllowed(f"{request.url.path} takes {_allowed(request)}, not {request.method}")
    return BadRequest(str(error.detail))


def _allowed(request: Request) -> str:
    """Every method of the path, also where each has a route of its own."""
    routes = [route for route in iter_route_contexts(request.app.routes) if route.path is not None]
    found = [route for route in routes if compile_path(str(route.path))[0].match(request.url.path)]
    return ", ".join(sorted({method for route in found for method in route.methods or ()}))


def of_validation(error: RequestValidationError) -> BadRequest:
    """Path or query parameters that do not fit, each with its place."""
    places = [
        {"pointer": "/".join(str(part) for part in item["loc"]), "detail": item["msg"]} for item in error.errors()
    ]
    first = places[0]
    return BadRequest(f"{first['pointer']}: {first['detail']}", errors=places[:10])


def answer(error: Exception, path: str, trace_id: str, observer: Observer) -> Response:
    """What is said of an exception, ours or one that nobody expected.

    A refusal that ends an attempt is a line in the log too, as a bug is: a person must look.
    """
    if not isinstance(error, OncegateError):
        observer.event("request_failed", trace_id=trace_id, path=path, error=error)
        return response(internal(error), trace_id)
    if isinstance(error, Stop):
        observer.event("stopped", code=error.code, path=path, detail=error.detail, trace_id=trace_id)
    return response(error, trace_id)


def install(app: FastAPI, observer: Observer) -> None:
    """Answer every exception with a problem; what nobody expected is the middleware's (`Internal`)."""

    async def refused(request: Request, error: Exception) -> Response:
        return answer(error, request.url.path, request.state.trace_id, observer)

    async def framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = {"Allow": _allowed(request)} if error.status_code == 405 else {}
        return response(of_http(error, request), request.state.trace_id, headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return response(of_validation(error), request.state.trace_id)

    app.add_exception_handler(OncegateError, refused)
    app.add_exception_handler(HTTPException, framework)
    app.add_exception_handler(RequestValidationError, invalid)


def internal(error: Exception) -> Internal:
    """What a caller is told of a bug: its kind, and that the effect is unknown."""
    return Internal(
        f"unexpected {type(error).__name__}; whether this was written is unknown. "
        "Repeating the same request (same token and call) is safe; the gateway's log has the trace_id"
    )
