"""Maps errors to gRPC statuses, with google.rpc details that name the caller's next action."""

import json
from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from oncegate.core.errors import OncegateError
from oncegate.transports.outcomes import OutcomeKind, outcome_of

DOMAIN = "oncegate"
DETAILS = "grpc-status-details-bin"
# Clients refuse metadata of 8 KiB or more (grpc.max_metadata_size) and then see neither code nor action. The detail,
# which may quote the request, is sent twice: unchanged, and percent-encoded with up to three bytes for each of its own.
_DETAIL_BYTES = 1_024
# Limit of an error's further members together.
_EXTRA_BYTES = 2_048
_CUT = " …"

CODES: dict[OutcomeKind, grpc.StatusCode] = {
    OutcomeKind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    OutcomeKind.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    OutcomeKind.STORAGE_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    OutcomeKind.DEADLINE: grpc.StatusCode.DEADLINE_EXCEEDED,
    OutcomeKind.TOO_SLOW: grpc.StatusCode.DEADLINE_EXCEEDED,
    OutcomeKind.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    OutcomeKind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.UNPROCESSABLE: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.TARGET_TOO_LONG: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.HEAD_TOO_LARGE: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.MISDIRECTED: grpc.StatusCode.FAILED_PRECONDITION,
    OutcomeKind.LENGTH_UNKNOWN: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.NOT_ACCEPTABLE: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.UNSUPPORTED: grpc.StatusCode.INVALID_ARGUMENT,
    OutcomeKind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    OutcomeKind.NO_SUCH_METHOD: grpc.StatusCode.UNIMPLEMENTED,
    OutcomeKind.GONE: grpc.StatusCode.OUT_OF_RANGE,
    OutcomeKind.OUT_OF_RANGE: grpc.StatusCode.OUT_OF_RANGE,
    OutcomeKind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    OutcomeKind.DENIED: grpc.StatusCode.PERMISSION_DENIED,
    OutcomeKind.INTERNAL: grpc.StatusCode.INTERNAL,
}


def code_of(error: type[OncegateError]) -> grpc.StatusCode:
    """Returns the gRPC code of an error class; a conflict that a retry may resolve is ABORTED."""
    kind = outcome_of(error).kind
    return grpc.StatusCode.ABORTED if kind is OutcomeKind.CONFLICT and error.action == "retry" else CODES[kind]


def detail_of(error: OncegateError) -> str:
    """Returns an error's detail, truncated to 1,024 bytes."""
    detail = error.detail.encode()
    if len(detail) <= _DETAIL_BYTES:
        return error.detail
    return detail[: _DETAIL_BYTES - len(_CUT.encode())].decode(errors="ignore") + _CUT


def details_of(error: OncegateError, trace_id: str) -> bytes:
    """Encodes the error as a google.rpc.Status with an ErrorInfo, and a RetryInfo if the same call may be retried."""
    status = Status(code=code_of(type(error)).value[0], message=detail_of(error))
    told = {"action": error.action, "effect": outcome_of(type(error)).effect, "trace_id": trace_id}
    status.details.add().Pack(ErrorInfo(reason=error.code, domain=DOMAIN, metadata=_texts(error.extra) | told))
    after_ms: Any = error.extra.get("retry_after_ms", error.retry_after_ms)
    if error.action == "retry" and after_ms is not None:
        delay = Duration()
        delay.FromMilliseconds(after_ms)
        status.details.add().Pack(RetryInfo(retry_delay=delay))
    written: bytes = status.SerializeToString()
    return written


def _texts(extra: Mapping[str, object]) -> dict[str, str]:
    """Returns an error's further members as text, in JSON if they are not strings. Omits members that do not fit."""
    texts, left = dict[str, str](), _EXTRA_BYTES
    for key, value in extra.items():
        text = value if isinstance(value, str) else json.dumps(value, default=_plain)
        if (size_bytes := len(text.encode())) <= left:
            texts[key], left = text, left - size_bytes
    return texts


def _plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)
