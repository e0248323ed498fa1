"""The outcome of each error, in one table for every transport.

`kind` classifies the failure independently of any protocol; each transport maps kinds to its own codes (HTTP statuses:
`http/problems.py`). `effect` answers whether something was written: "none" or "unknown". No error is certain to have
written something.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from oncegate.core import errors as e

Effect = Literal["none", "unknown"]


class OutcomeKind(Enum):
    """The kind of a failure. The comment after each is its gRPC code (grpc/statuscodes.md)."""

    UNAVAILABLE = "unavailable"  # UNAVAILABLE
    EXHAUSTED = "exhausted"  # RESOURCE_EXHAUSTED
    STORAGE_FULL = "storage full"  # RESOURCE_EXHAUSTED
    DEADLINE = "deadline"  # DEADLINE_EXCEEDED
    TOO_SLOW = "too slow"  # DEADLINE_EXCEEDED
    CONFLICT = "conflict"  # FAILED_PRECONDITION; ABORTED where the action is retry
    INVALID = "invalid"  # INVALID_ARGUMENT
    UNPROCESSABLE = "unprocessable"  # INVALID_ARGUMENT
    TOO_LARGE = "too large"  # INVALID_ARGUMENT
    TARGET_TOO_LONG = "target too long"  # INVALID_ARGUMENT
    HEAD_TOO_LARGE = "head too large"  # INVALID_ARGUMENT
    MISDIRECTED = "misdirected"  # FAILED_PRECONDITION
    LENGTH_UNKNOWN = "length unknown"  # INVALID_ARGUMENT
    NOT_ACCEPTABLE = "not acceptable"  # INVALID_ARGUMENT
    UNSUPPORTED = "unsupported"  # INVALID_ARGUMENT
    NOT_FOUND = "not found"  # NOT_FOUND
    NO_SUCH_METHOD = "no such method"  # UNIMPLEMENTED
    GONE = "gone"  # OUT_OF_RANGE
    OUT_OF_RANGE = "out of range"  # OUT_OF_RANGE
    UNAUTHENTICATED = "unauthenticated"  # UNAUTHENTICATED
    DENIED = "denied"  # PERMISSION_DENIED
    INTERNAL = "internal"  # INTERNAL


@dataclass(frozen=True)
class Outcome:
    """The kind of an error, and its effect."""

    kind: OutcomeKind
    effect: Effect = "none"


OUTCOMES: dict[type[e.OncegateError], Outcome] = {
    e.Overloaded: Outcome(OutcomeKind.UNAVAILABLE),
    e.Recovering: Outcome(OutcomeKind.UNAVAILABLE),
    e.KeysUnread: Outcome(OutcomeKind.UNAVAILABLE),
    e.QuotaExceeded: Outcome(OutcomeKind.EXHAUSTED),
    e.LedgerFull: Outcome(OutcomeKind.STORAGE_FULL),
    e.LedgerDown: Outcome(OutcomeKind.UNAVAILABLE, "unknown"),
    e.LedgerFenced: Outcome(OutcomeKind.UNAVAILABLE),
    e.DeadlinePassed: Outcome(OutcomeKind.DEADLINE),
    e.BodyTooSlow: Outcome(OutcomeKind.TOO_SLOW),
    e.Stopping: Outcome(OutcomeKind.UNAVAILABLE),
    e.MissingStage: Outcome(OutcomeKind.CONFLICT),
    e.ProducerBusy: Outcome(OutcomeKind.CONFLICT),
    e.LeaseLive: Outcome(OutcomeKind.CONFLICT),
    e.BadRequest: Outcome(OutcomeKind.INVALID),
    e.NullId: Outcome(OutcomeKind.UNPROCESSABLE),
    e.TooLarge: Outcome(OutcomeKind.TOO_LARGE),
    e.TargetTooLong: Outcome(OutcomeKind.TARGET_TOO_LONG),
    e.HeadTooLarge: Outcome(OutcomeKind.HEAD_TOO_LARGE),
    e.Misdirected: Outcome(OutcomeKind.MISDIRECTED),
    e.ForeignOrigin: Outcome(OutcomeKind.DENIED),
    e.Unauthenticated: Outcome(OutcomeKind.UNAUTHENTICATED),
    e.Forbidden: Outcome(OutcomeKind.DENIED),
    e.LengthRequired: Outcome(OutcomeKind.LENGTH_UNKNOWN),
    e.NotAcceptable: Outcome(OutcomeKind.NOT_ACCEPTABLE),
    e.UnsupportedMedia: Outcome(OutcomeKind.UNSUPPORTED),
    e.NotFound: Outcome(OutcomeKind.NOT_FOUND),
    e.MethodNotAllowed: Outcome(OutcomeKind.NO_SUCH_METHOD),
    e.SchemaMismatch: Outcome(OutcomeKind.CONFLICT),
    e.OtherPartitions: Outcome(OutcomeKind.CONFLICT),
    e.ReadElsewhere: Outcome(OutcomeKind.CONFLICT),
    e.TokenReused: Outcome(OutcomeKind.UNPROCESSABLE),
    e.ChunkAltered: Outcome(OutcomeKind.UNPROCESSABLE),
    e.OffsetTrimmed: Outcome(OutcomeKind.GONE),
    e.TooManyNamespaces: Outcome(OutcomeKind.EXHAUSTED),
    e.NotEmpty: Outcome(OutcomeKind.CONFLICT),
    e.OffsetBeyondEnd: Outcome(OutcomeKind.OUT_OF_RANGE),
    e.UnknownProducer: Outcome(OutcomeKind.NOT_FOUND),
    e.UnknownDriver: Outcome(OutcomeKind.NOT_FOUND),
    e.OtherDriver: Outcome(OutcomeKind.CONFLICT),
    e.SourceReplaced: Outcome(OutcomeKind.CONFLICT),
    e.UnknownClaim: Outcome(OutcomeKind.NOT_FOUND),
    e.ReleasedClaim: Outcome(OutcomeKind.CONFLICT),
    e.Fenced: Outcome(OutcomeKind.CONFLICT),
    e.Gap: Outcome(OutcomeKind.CONFLICT),
    e.OutOfOrder: Outcome(OutcomeKind.CONFLICT),
    e.NotDriver: Outcome(OutcomeKind.DENIED),
    e.NotDone: Outcome(OutcomeKind.CONFLICT),
    e.OlderBatch: Outcome(OutcomeKind.CONFLICT),
    e.SecondWrite: Outcome(OutcomeKind.CONFLICT),
    e.BatchConflict: Outcome(OutcomeKind.CONFLICT),
    e.BatchForgotten: Outcome(OutcomeKind.CONFLICT),
    e.TopicReplaced: Outcome(OutcomeKind.CONFLICT),
    e.LedgerBehind: Outcome(OutcomeKind.CONFLICT),
    e.LedgerDamaged: Outcome(OutcomeKind.CONFLICT),
    e.LedgerBusy: Outcome(OutcomeKind.CONFLICT),
    e.KeyMismatch: Outcome(OutcomeKind.CONFLICT),
}


class Internal(e.OncegateError):
    """A bug in the gateway, as reported to the caller. Made from an unexpected exception; never raised.

    A retry is safe: every write is recognised by its token and call, chunk or nonce (except `plain`, on purpose), and
    clients retry a bounded number of times.
    """

    code, title = "INTERNAL", "A bug in the gateway; whether this was written is unknown"
    action = "retry"
    retry_after_ms = 1_000


INTERNAL = Outcome(OutcomeKind.INTERNAL, "unknown")


def outcome_of(error: type[e.OncegateError]) -> Outcome:
    """Returns the outcome of an error class. Raises KeyError for one that callers never see."""
    return INTERNAL if error is Internal else OUTCOMES[error]


def public_errors() -> list[type[e.OncegateError]]:
    """Returns every error class that callers can see, those of `core.errors` first."""
    return [*OUTCOMES, Internal]


def internal(error: Exception) -> Internal:
    """Converts an unexpected exception to the caller's error, with the exception's name; effect unknown."""
    return Internal(
        f"unexpected {type(error).__name__}; whether this was written is unknown. "
        "Repeating the same request (same token and call) is safe; the gateway's log has the trace_id"
    )
