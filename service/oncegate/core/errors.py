"""Everything a request can be refused for, and what the caller can do about it.

* OncegateError
  + Retryable           the same request may be sent again
    - Overloaded          too much in flight: nothing was written
    - Recovering          the index is being rebuilt: nothing was written
    - QuotaExceeded       stages hold all the room they may: nothing was written
    - LedgerFull          the ledger has no room: nothing was written
    - LedgerDown          the ledger failed while writing: unknown whether it was written
    - DeadlinePassed      the caller's deadline passed before the decision: nothing was written
    - MissingStage        a winner's stage is gone: the batch must be written again
    - ProducerBusy        another attempt's lease on this producer is live: nothing was changed
  + Rejected            fix the request; sending it again cannot help
    - BadRequest          malformed body, header, parameter, chunk
    - NullId              an id is null or empty
    - TooLarge            body, batch, id or record over its limit
    - LengthRequired      a body without Content-Length
    - NotAcceptable, UnsupportedMedia
    - NotFound            no such path, namespace or topic
    - MethodNotAllowed
    - SchemaMismatch      the rows are not of the topic's schema
    - TokenReused         same token and call with other ids
    - ChunkAltered        same token and chunk with other rows
    - OffsetTrimmed       the offset lies below the lowest kept
    - UnknownProducer, UnknownDriver  register first
    - OtherDriver         the producer belongs to another driver
  + Stop                this attempt is over; a person or the caller's owner must look
    - UnknownClaim, ReleasedClaim
    - Fenced              a later registration has taken this one's place
    - Gap                 sequences before these were never claimed
    - OutOfOrder          later sequences were claimed already: the lane is split or shuffled
    - NotDriver           only the driver acks
    - NotDone             acked over something that was claimed and is not done: nothing was changed
    - SecondWrite         one run writes twice to one topic under one name
    - Conflict            other input under a number already committed
    - BatchForgotten      committed so long ago that rows can no longer be compared
    - LedgerBehind        the caller saw a later ledger than this one
    - LedgerDamaged       what is on disk is not what was acknowledged
    - LedgerBusy          another process owns the data folder
    - LedgerFenced        a newer owner has opened this ledger
    - KeyMismatch         the ledger was written with another key

A bug is an `assert`, never one of these.
"""

from typing import ClassVar, Literal

Action = Literal["retry", "fix", "stop"]


class OncegateError(Exception):
    """`detail` is one sentence for a person; `extra` goes into the problem document as further members."""

    code: ClassVar[str]
    title: ClassVar[str]
    action: ClassVar[Action]
    retry_after_ms: ClassVar[int | None] = None

    def __init__(self, detail: str, **extra: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class Retryable(OncegateError):
    action = "retry"
    retry_after_ms: ClassVar[int | None] = 1_000


class Rejected(OncegateError):
    action = "fix"


class Stop(OncegateError):
    action = "stop"


class Overloaded(Retryable):
    code, title, retry_after_ms = "OVERLOADED", "Too much in flight; nothing was written", 200


class Recovering(Retryable):
    code, title = "RECOVERING", "The index is being rebuilt from the ledger; nothing was written"


class QuotaExceeded(Retryable):
    code, title, retry_after_ms = "QUOTA", "No room for further stages; nothing was written", 5_000


class LedgerFull(Retryable):
    code, title, retry_after_ms = "LEDGER_FULL", "The ledger has no room; nothing was written", 5_000


class LedgerDown(Retryable):
    code, title = "LEDGER_DOWN", "The ledger failed; whether this was written is unknown"


class DeadlinePassed(Retryable):
    code, title = "DEADLINE", "The deadline passed before the decision; nothing was written"


class MissingStage(Retryable):
    code, title, retry_after_ms = (
        "MISSING_STAGE",
        "A winner's stage is not there: write the batch again",
        None,
    )


class ProducerBusy(Retryable):
    code, title, retry_after_ms = "PRODUCER_BUSY", "Another attempt holds this producer; nothing was changed", None


class BadRequest(Rejected):
    code, title = "BAD_REQUEST", "The request cannot be read"


class NullId(Rejected):
    code, title = "NULL_ID", "An id is null or empty"


class TooLarge(Rejected):
    code, title = "TOO_LARGE", "Over a limit (GET /v1/limits)"


class LengthRequired(Rejected):
    code, title = "LENGTH_REQUIRED", "A body needs a Content-Length"


class NotAcceptable(Rejected):
    code, title = "NOT_ACCEPTABLE", "No such representation"


class UnsupportedMedia(Rejected):
    code, title = "UNSUPPORTED_MEDIA", "This content type is not read here"


class NotFound(Rejected):
    code, title = "NOT_FOUND", "There is no such thing"


class MethodNotAllowed(Rejected):
    code, title = "METHOD_NOT_ALLOWED", "Not with this method"


class SchemaMismatch(Rejected):
    code, title = "SCHEMA", "The rows are not of the topic's schema"


class TokenReused(Rejected):
    code, title = "TOKEN_REUSED", "This token and call were used with other ids"


class ChunkAltered(Rejected):
    code, title = "CHUNK_ALTERED", "This token and chunk were staged with other rows"


class OffsetTrimmed(Rejected):
    code, title = "OFFSET_TRIMMED", "The offset lies below the lowest kept"


class UnknownProducer(Rejected):
    code, title = "UNKNOWN_PRODUCER", "This producer and epoch are not known here: register first"


class UnknownDriver(Rejected):
    code, title = "UNKNOWN_DRIVER", "This driver and epoch are not known here: register first"


class OtherDriver(Rejected):
    code, title = "OTHER_DRIVER", "The producer belongs to another driver"


class UnknownClaim(Stop):
    code, title = "UNKNOWN_CLAIM", "Nothing is known of this claim"


class ReleasedClaim(Stop):
    code, title = "RELEASED_CLAIM", "This claim was released"


class Fenced(Stop):
    code, title = "FENCED", "A later registration has taken this one's place"


class Gap(Stop):
    code, title = "GAP", "Sequences before these were never claimed"


class OutOfOrder(Stop):
    code, title = "OUT_OF_ORDER", "Later sequences were claimed already"


class NotDriver(Stop):
    code, title = "NOT_DRIVER", "Only the driver acks"


class NotDone(Stop):
    code, title = "NOT_DONE", "Not all of this is done: nothing was acked"


class SecondWrite(Stop):
    code, title = "SECOND_WRITE", "One run writes twice to one topic under one name"


class Conflict(Stop):
    code, title = "CONFLICT", "Other input under a number that is already committed"


class BatchForgotten(Stop):
    code, title = "BATCH_FORGOTTEN", "This batch was committed too long ago to be compared"


class LedgerBehind(Stop):
    code, title = "LEDGER_BEHIND", "The caller saw a later ledger than this one"


class LedgerDamaged(Stop):
    code, title = "LEDGER_DAMAGED", "What is on disk is not what was acknowledged"


class LedgerBusy(Stop):
    code, title = "LEDGER_BUSY", "Another process owns the data folder"


class LedgerFenced(Stop):
    code, title = "LEDGER_FENCED", "A newer owner has opened this ledger"


class KeyMismatch(Stop):
    code, title = "KEY_MISMATCH", "The ledger was written with another key"
