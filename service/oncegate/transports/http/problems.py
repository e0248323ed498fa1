"""Converts errors to RFC 9457 problem documents: the cause, and whether to retry, fix or stop."""

from collections.abc import Mapping, Sequence

import msgspec
from fastapi import Response

from oncegate.core.errors import (
    BodyTooSlow,
    LedgerFenced,
    MethodNotAllowed,
    NotFound,
    OncegateError,
    Recovering,
    Stop,
    Stopping,
    Unauthenticated,
)
from oncegate.ports import Observer
from oncegate.transports.outcomes import OutcomeKind, internal, outcome_of
from oncegate.transports.tracing import note_refusal

PROBLEM = "application/problem+json"
# Another gateway under the same name may be able to answer. The connection is closed, since a caller that keeps it
# would reach this gateway again.
ELSEWHERE = LedgerFenced | Recovering | Stopping

STATUS: dict[OutcomeKind, int] = {
    OutcomeKind.UNAVAILABLE: 503,
    OutcomeKind.EXHAUSTED: 429,
    OutcomeKind.STORAGE_FULL: 507,
    OutcomeKind.DEADLINE: 504,
    OutcomeKind.TOO_SLOW: 408,
    OutcomeKind.CONFLICT: 409,
    OutcomeKind.INVALID: 400,
    OutcomeKind.UNPROCESSABLE: 422,
    OutcomeKind.TOO_LARGE: 413,
    OutcomeKind.TARGET_TOO_LONG: 414,
    OutcomeKind.HEAD_TOO_LARGE: 431,
    OutcomeKind.MISDIRECTED: 421,
    OutcomeKind.LENGTH_UNKNOWN: 411,
    OutcomeKind.NOT_ACCEPTABLE: 406,
    OutcomeKind.UNSUPPORTED: 415,
    OutcomeKind.NOT_FOUND: 404,
    OutcomeKind.NO_SUCH_METHOD: 405,
    OutcomeKind.GONE: 410,
    OutcomeKind.OUT_OF_RANGE: 416,
    OutcomeKind.UNAUTHENTICATED: 401,
    OutcomeKind.DENIED: 403,
    OutcomeKind.INTERNAL: 500,
}


def status_of(error: type[OncegateError]) -> int:
    return STATUS[outcome_of(error).kind]


def type_of(code: str) -> str:
    """Returns the problem's `type`: the path of a page that this gateway serves."""
    return "/errors/" + code.lower().replace("_", "-")


def document(error: OncegateError, trace_id: str) -> dict[str, object]:
    """Returns the problem's members; those of `extra` follow the fixed ones and never replace them."""
    fixed: dict[str, object] = {
        "type": type_of(error.code),
        "title": error.title,
        "status": status_of(type(error)),
        "detail": error.detail,
        "code": error.code,
        "action": error.action,
        "effect": outcome_of(type(error)).effect,
    }
    if error.retry_after_ms is not None:
        fixed["retry_after_ms"] = error.extra.get("retry_after_ms", error.retry_after_ms)
    return fixed | {key: value for key, value in error.extra.items() if key not in fixed} | {"trace_id": trace_id}


def encode(error: OncegateError, trace_id: str) -> bytes:
    """Encodes the problem as JSON; bytes become hex."""
    return msgspec.json.encode(document(error, trace_id), enc_hook=_plain)


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)


def response(error: OncegateError, trace_id: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns the problem's response, with `Retry-After` in whole seconds if a retry can succeed.

    Closes the connection if unread body bytes would be parsed as a request, or if another gateway may be able to answer
    the retry.
    """
    sent = dict(headers or {})
    after_ms = error.extra.get("retry_after_ms", error.retry_after_ms)
    if isinstance(after_ms, int):
        sent["Retry-After"] = str(-(-after_ms // 1000))
    if isinstance(error, BodyTooSlow | ELSEWHERE):
        sent["Connection"] = "close"
    if isinstance(error, Unauthenticated):
        sent["WWW-Authenticate"] = "Bearer"
    note_refusal(error)
    return Response(encode(error, trace_id), status_of(type(error)), sent, media_type=PROBLEM)


def unrouted(path: str, method: str, methods: Sequence[str]) -> OncegateError:
    """Returns the error for a request without a route; `methods`: the methods that its path supports."""
    if not methods:
        return NotFound(f"there is no {path} here; GET /openapi.json lists what there is")
    return MethodNotAllowed(f"{path} takes {', '.join(methods)}, not {method}")


def answer(error: Exception, path: str, trace_id: str, observer: Observer) -> Response:
    """Converts an exception to a problem response; an unexpected one becomes an internal error.

    Internal errors, and refusals that end an attempt (`Stop`), are also logged: they need a person.
    """
    if not isinstance(error, OncegateError):
        observer.event("request_failed", trace_id=trace_id, path=path, error=error)
        return response(internal(error), trace_id)
    if isinstance(error, Stop):
        observer.event("attempt_refused", code=error.code, path=path, detail=error.detail, trace_id=trace_id)
    return response(error, trace_id)
