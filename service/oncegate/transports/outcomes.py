"""What the outside is told about each error: one table for every transport.

`effect` answers the question a caller has after any failure: was something written? "none" and "unknown" are
the only answers; an error that is sure to have written something does not exist.
"""

from dataclasses import dataclass
from typing import Literal

from oncegate.core import errors as e

Effect = Literal["none", "unknown"]


@dataclass(frozen=True)
class Outcome:
    """How one error looks over HTTP: its status, and what is known of its effect."""

    status: int
    effect: Effect = "none"


OUTCOMES: dict[type[e.OncegateError], Outcome] = {
    e.Overloaded: Outcome(503),
    e.Recovering: Outcome(503),
    e.QuotaExceeded: Outcome(429),
    e.LedgerFull: Outcome(507),
    e.LedgerDown: Outcome(503, "unknown"),
    e.DeadlinePassed: Outcome(504),
    e.MissingStage: Outcome(409),
    e.ProducerBusy: Outcome(409),
    e.BadRequest: Outcome(400),
    e.NullId: Outcome(422),
    e.TooLarge: Outcome(413),
    e.LengthRequired: Outcome(411),
    e.NotAcceptable: Outcome(406),
    e.UnsupportedMedia: Outcome(415),
    e.NotFound: Outcome(404),
    e.MethodNotAllowed: Outcome(405),
    e.SchemaMismatch: Outcome(409),
    e.TokenReused: Outcome(422),
    e.ChunkAltered: Outcome(422),
    e.OffsetTrimmed: Outcome(410),
    e.UnknownProducer: Outcome(404),
    e.UnknownDriver: Outcome(404),
    e.OtherDriver: Outcome(409),
    e.UnknownClaim: Outcome(404),
    e.ReleasedClaim: Outcome(409),
    e.Fenced: Outcome(409),
    e.Gap: Outcome(409),
    e.OutOfOrder: Outcome(409),
    e.NotDriver: Outcome(403),
    e.NotDone: Outcome(409),
    e.SecondWrite: Outcome(409),
    e.Conflict: Outcome(409),
    e.BatchForgotten: Outcome(409),
    e.LedgerBehind: Outcome(409),
    e.LedgerDamaged: Outcome(409),
    e.LedgerBusy: Outcome(409),
    e.LedgerFenced: Outcome(409),
    e.KeyMismatch: Outcome(409),
}


class Internal(e.OncegateError):
    """A bug of ours, as the caller sees it; raised nowhere, made of whatever nobody expected.

    Retry is safe: every call that writes is recognised by its token and call, chunk or nonce (`plain` is not, on
    purpose), and clients retry a bounded number of times.
    """

    code, title = "INTERNAL", "A bug in the gateway; whether this was written is unknown"
    action = "retry"
    retry_after_ms = 1_000


INTERNAL = Outcome(500, "unknown")


def outcome_of(error: e.OncegateError) -> Outcome:
    """The table's row for `error`."""
    return INTERNAL if isinstance(error, Internal) else OUTCOMES[type(error)]


def told() -> list[type[e.OncegateError]]:
    """Every error a caller can meet, those of the tree first."""
    return [*OUTCOMES, Internal]
