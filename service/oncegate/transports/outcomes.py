"""What a caller is told about each error: one table for every transport.

`kind` says what sort of failure it is, in words of no protocol; each transport has one table from kinds to its own
codes (HTTP's statuses: `http/problems.py`). `effect` answers the question a caller has after any failure: was
something written? "none" and "unknown" are the only answers; an error that is sure to have written something does not
exist.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from oncegate.core import errors as e

Effect = Literal["none", "unknown"]


class Kind(Enum):
    """What sort of failure an error is. Behind each: the gRPC code that stands for it (grpc/statuscodes.md)."""

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
    """What one error is, and what is known of its effect."""

    kind: Kind
    effect: Effect = "none"


OUTCOMES: dict[type[e.OncegateError], Outcome] = {
    e.Overloaded: Outcome(Kind.UNAVAILABLE),
    e.Recovering: Outcome(Kind.UNAVAILABLE),
    e.KeysUnread: Outcome(Kind.UNAVAILABLE),
    e.QuotaExceeded: Outcome(Kind.EXHAUSTED),
    e.LedgerFull: Outcome(Kind.STORAGE_FULL),
    e.LedgerDown: Outcome(Kind.UNAVAILABLE, "unknown"),
    e.LedgerFenced: Outcome(Kind.UNAVAILABLE),
    e.DeadlinePassed: Outcome(Kind.DEADLINE),
    e.BodyTooSlow: Outcome(Kind.TOO_SLOW),
    e.Stopping: Outcome(Kind.UNAVAILABLE),
    e.MissingStage: Outcome(Kind.CONFLICT),
    e.ProducerBusy: Outcome(Kind.CONFLICT),
    e.LeaseLive: Outcome(Kind.CONFLICT),
    e.BadRequest: Outcome(Kind.INVALID),
    e.NullId: Outcome(Kind.UNPROCESSABLE),
    e.TooLarge: Outcome(Kind.TOO_LARGE),
    e.TargetTooLong: Outcome(Kind.TARGET_TOO_LONG),
    e.HeadTooLarge: Outcome(Kind.HEAD_TOO_LARGE),
    e.Misdirected: Outcome(Kind.MISDIRECTED),
    e.ForeignOrigin: Outcome(Kind.DENIED),
    e.Unauthenticated: Outcome(Kind.UNAUTHENTICATED),
    e.Forbidden: Outcome(Kind.DENIED),
    e.LengthRequired: Outcome(Kind.LENGTH_UNKNOWN),
    e.NotAcceptable: Outcome(Kind.NOT_ACCEPTABLE),
    e.UnsupportedMedia: Outcome(Kind.UNSUPPORTED),
    e.NotFound: Outcome(Kind.NOT_FOUND),
    e.MethodNotAllowed: Outcome(Kind.NO_SUCH_METHOD),
    e.SchemaMismatch: Outcome(Kind.CONFLICT),
    e.OtherPartitions: Outcome(Kind.CONFLICT),
    e.ReadElsewhere: Outcome(Kind.CONFLICT),
    e.TokenReused: Outcome(Kind.UNPROCESSABLE),
    e.ChunkAltered: Outcome(Kind.UNPROCESSABLE),
    e.OffsetTrimmed: Outcome(Kind.GONE),
    e.TooManyNamespaces: Outcome(Kind.EXHAUSTED),
    e.NotEmpty: Outcome(Kind.CONFLICT),
    e.OffsetBeyondEnd: Outcome(Kind.OUT_OF_RANGE),
    e.UnknownProducer: Outcome(Kind.NOT_FOUND),
    e.UnknownDriver: Outcome(Kind.NOT_FOUND),
    e.OtherDriver: Outcome(Kind.CONFLICT),
    e.SourceReplaced: Outcome(Kind.CONFLICT),
    e.UnknownClaim: Outcome(Kind.NOT_FOUND),
    e.ReleasedClaim: Outcome(Kind.CONFLICT),
    e.Fenced: Outcome(Kind.CONFLICT),
    e.Gap: Outcome(Kind.CONFLICT),
    e.OutOfOrder: Outcome(Kind.CONFLICT),
    e.NotDriver: Outcome(Kind.DENIED),
    e.NotDone: Outcome(Kind.CONFLICT),
    e.OlderBatch: Outcome(Kind.CONFLICT),
    e.SecondWrite: Outcome(Kind.CONFLICT),
    e.BatchConflict: Outcome(Kind.CONFLICT),
    e.BatchForgotten: Outcome(Kind.CONFLICT),
    e.TopicReplaced: Outcome(Kind.CONFLICT),
    e.LedgerBehind: Outcome(Kind.CONFLICT),
    e.LedgerDamaged: Outcome(Kind.CONFLICT),
    e.LedgerBusy: Outcome(Kind.CONFLICT),
    e.KeyMismatch: Outcome(Kind.CONFLICT),
}


class Internal(e.OncegateError):
    """A bug of ours, as the caller sees it: made of any exception that nobody expected, and raised nowhere.

    Retry is safe: every call that writes is recognised by its token and call, chunk or nonce (`plain` is not, on
    purpose), and clients retry a bounded number of times.
    """

    code, title = "INTERNAL", "A bug in the gateway; whether this was written is unknown"
    action = "retry"
    retry_after_ms = 1_000


INTERNAL = Outcome(Kind.INTERNAL, "unknown")


def outcome_of(error: type[e.OncegateError]) -> Outcome:
    """Returns the table's row for a class of errors. Raises KeyError for one that no caller ever meets."""
    return INTERNAL if error is Internal else OUTCOMES[error]


def public_errors() -> list[type[e.OncegateError]]:
    """Returns every class of errors that a caller can meet, those of `core.errors` first."""
    return [*OUTCOMES, Internal]


def internal(error: Exception) -> Internal:
    """Makes the error that stands for a bug: its exception's name, and that the effect is unknown."""
    return Internal(
        f"unexpected {type(error).__name__}; whether this was written is unknown. "
        "Repeating the same request (same token and call) is safe; the gateway's log has the trace_id"
    )
