"""Everything a request can be refused for, and what the caller can do about it.

* OncegateError
  + Retryable           the same request may be sent again
    - Overloaded          too much in flight: nothing was written
    - Recovering, KeysUnread  the index is being rebuilt, or a tokens' issuer asked for its keys: nothing was written
    - QuotaExceeded, LedgerFull  a quota is used up, or there is no room: nothing was written
    - LedgerDown          the ledger failed while writing: unknown whether it was written
    - LedgerFenced        another gateway owns the ledger now: nothing was written here, ask that one
    - BodyTooSlow, Stopping  the body came too slowly, or the gateway is drained or stopped: nothing was written
    - DeadlinePassed      the caller's deadline passed before the decision, or the end of reading: nothing was written
    - MissingStage        a winner's stage is gone: the batch must be written again
    - ProducerBusy, LeaseLive  another attempt's lease on this is live: nothing was changed
  + Rejected            fix the request; sending it again cannot help
    - BadRequest, NullId  malformed body, header, parameter, chunk; an id is null or empty
    - TooLarge            body, batch, id or record over its limit
    - LengthRequired, TargetTooLong, HeadTooLarge  a body without Content-Length, or too long a head
    - Misdirected, ForeignOrigin  for another host, or from another site
    - Unauthenticated, Forbidden  without a valid key, or with one that may not do this
    - NotAcceptable, UnsupportedMedia, NotFound, MethodNotAllowed  no such encoding, path, namespace, topic or method
    - SchemaMismatch      the rows are not of the topic's schema
    - OtherPartitions, ReadElsewhere  the topic has other partitions; its rows are read where they lie
    - TokenReused, ChunkAltered  same token with other ids under its call, or other rows under its chunk
    - OffsetTrimmed, OffsetBeyondEnd  the offset lies below the lowest kept, or beyond the end
    - UnknownProducer, UnknownDriver  register first
    - TooManyNamespaces, NotEmpty  delete one first; one that holds something, by saying its name once more
    - OtherDriver         the producer belongs to another driver
  + Stop                this attempt is over; a person or the caller's owner must look
    - UnknownClaim, ReleasedClaim
    - SourceReplaced      the producer's sequences are of another source, as before its topic was made again
    - Gap, OutOfOrder   sequences before these were never claimed, or later ones were: split or shuffled
    - Fenced, NotDriver   a later registration has taken this one's place; only the driver acks
    - NotDone, OlderBatch  acked over something claimed and not done, or a batch before the last that was acked
    - SecondWrite         one run writes twice to one topic under one name
    - BatchConflict, BatchForgotten  other input under a committed number; one that can no longer be compared
    - TopicReplaced       the topic was deleted and made again: what its set of ids knows is not there
    - LedgerBehind, LedgerDamaged  the caller saw a later ledger than this one; it is not what was acknowledged
    - LedgerBusy, KeyMismatch  another process owns the data folder; another key wrote the ledger

A bug is an `assert`, never one of these.
"""

from typing import ClassVar, Literal

NextStep = Literal["retry", "fix", "stop"]


class SettingsError(ValueError):
    """A setting that cannot be used, in one line for a person."""


class OncegateError(Exception):
    """`detail` is one sentence for a person; `extra` goes into the problem document as further members."""

    code: ClassVar[str]
    title: ClassVar[str]
    action: ClassVar[NextStep]
    retry_after_ms: ClassVar[int | None] = None

    def __init__(self, detail: str, **extra: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class Retryable(OncegateError):
    """Refuses for now: the same request may succeed later, after `retry_after_ms` where that is given."""

    action = "retry"
    retry_after_ms: ClassVar[int | None] = 1_000


class Rejected(OncegateError):
    """Refuses a request that is wrong as it stands: whoever wrote the caller has to fix it."""

    action = "fix"


class TooManyNamespaces(Rejected):
    """Says that there are as many namespaces as may be; nothing was made."""

    code, title = "TOO_MANY_NAMESPACES", "There are as many namespaces as may be; nothing was made"


class NotEmpty(Rejected):
    """Says that a namespace that is to be deleted holds something; nothing was deleted. `holds`: how many of what."""

    code, title = "NOT_EMPTY", "The namespace holds something; nothing was deleted"


class Stop(OncegateError):
    """Refuses for good: the caller must not go on as it does."""

    action = "stop"


class Overloaded(Retryable):
    """Says that too many requests or bytes are in flight; nothing was written."""

    code, title, retry_after_ms = "OVERLOADED", "Too much in flight; nothing was written", 200


class Recovering(Retryable):
    """Says that the index is being rebuilt from the ledger; nothing was written."""

    code, title = "RECOVERING", "The index is being rebuilt from the ledger; nothing was written"


class KeysUnread(Retryable):
    """Says that a token cannot be checked yet, since its issuer is being asked for its keys; nothing was written."""

    code, title = "KEYS_UNREAD", "The issuer's keys are being read; nothing was written"


class QuotaExceeded(Retryable):
    """Says that a quota of the namespace or tenant is used up: of stages, open claims, ids or bytes; no effect."""

    code, title, retry_after_ms = "QUOTA", "A quota is used up; nothing was written", 5_000


class LedgerFull(Retryable):
    """Says that the ledger has no room; nothing was written, and it goes on."""

    code, title, retry_after_ms = "LEDGER_FULL", "The ledger has no room; nothing was written", 5_000


class LedgerDown(Retryable):
    """Says that the ledger failed: whether this was written is unknown until it is opened anew."""

    code, title = "LEDGER_DOWN", "The ledger failed; whether this was written is unknown"


class LedgerFenced(Retryable):
    """Says that this gateway no longer owns the ledger and writes nothing more; its new owner answers the same
    request."""

    code, title = "LEDGER_FENCED", "This gateway no longer owns the ledger; nothing was written"


class DeadlinePassed(Retryable):
    """Says that the deadline passed before the decision, or before all was read; nothing was written."""

    code, title = "DEADLINE", "The deadline passed first; nothing was written"


class BodyTooSlow(Retryable):
    """Says that the body came slower than bodies may, and was given up; nothing was written."""

    code, title = "BODY_TOO_SLOW", "The body comes too slowly; nothing was written"


class Stopping(Retryable):
    """Says that an operator drained the gateway, or that it is stopped before a body was there; nothing was written."""

    code, title = "STOPPING", "The gateway is drained or being stopped; nothing was written"


class MissingStage(Retryable):
    """Says that a winner's stage is not there: the batch is to be written again."""

    code, title = "MISSING_STAGE", "A winner's stage is not there: write the batch again"
    retry_after_ms = None


class ProducerBusy(Retryable):
    """Says that another attempt holds this producer; nothing was changed."""

    code, title, retry_after_ms = "PRODUCER_BUSY", "Another attempt holds this producer; nothing was changed", None


class LeaseLive(Retryable):
    """Says that what was to be cleared is no leftover yet: a live lease holds it; nothing was changed."""

    code, title, retry_after_ms = "LEASE_LIVE", "A live lease holds this; nothing was changed", None


class BadRequest(Rejected):
    """Says that the request cannot be read; nothing was written."""

    code, title = "BAD_REQUEST", "The request cannot be read"


class NullId(Rejected):
    """Says that an id is null or empty; nothing was written."""

    code, title = "NULL_ID", "An id is null or empty"


class TooLarge(Rejected):
    """Says that something is over a limit; nothing was written."""

    code, title = "TOO_LARGE", "Over a limit (GET /v1/limits)"


class TargetTooLong(Rejected):
    """Says that a path with its query is longer than any is; nothing was written."""

    code, title = "TARGET_TOO_LONG", "The path with its query is too long"


class HeadTooLarge(Rejected):
    """Says that a request's header fields are larger than any need be; nothing was written."""

    code, title = "HEAD_TOO_LARGE", "The header fields are too large"


class Misdirected(Rejected):
    """Says that the request is for a host that this gateway is not; nothing was written."""

    code, title = "MISDIRECTED", "Not a name of this gateway"


class ForeignOrigin(Rejected):
    """Says that a page of another site sends this; nothing was written."""

    code, title = "FOREIGN_ORIGIN", "Pages of other sites may not call"


class LengthRequired(Rejected):
    """Says that a body came without its length; it was not read."""

    code, title = "LENGTH_REQUIRED", "A body needs a Content-Length"


class Unauthenticated(Rejected):
    """Says that the request brings no key that is valid here; nothing was written."""

    code, title = "UNAUTHENTICATED", "A valid key is needed; nothing was written"


class Forbidden(Rejected):
    """Says that the caller's key may not do this here, whether or not it is there; nothing was written."""

    code, title = "FORBIDDEN", "The key may not do this; nothing was written"


class NotAcceptable(Rejected):
    """Says that the caller accepts no representation that there is."""

    code, title = "NOT_ACCEPTABLE", "No such representation"


class UnsupportedMedia(Rejected):
    """Says that this content type is not read here."""

    code, title = "UNSUPPORTED_MEDIA", "This content type is not read here"


class NotFound(Rejected):
    """Says that there is no such thing."""

    code, title = "NOT_FOUND", "There is no such thing"


class MethodNotAllowed(Rejected):
    """Says that this path is not for this method."""

    code, title = "METHOD_NOT_ALLOWED", "Not with this method"


class SchemaMismatch(Rejected):
    """Says that the rows are not of the topic's schema; nothing was written."""

    code, title = "SCHEMA", "The rows are not of the topic's schema"


class ReadElsewhere(Rejected):
    """Says that rows of topics lie elsewhere, and are read there. `brokers`, `topic`: where."""

    code, title = "READ_ELSEWHERE", "The rows of this topic are read where they lie, and not here"


class OtherPartitions(Rejected):
    """Says that a topic is there with another number of partitions; nothing was changed. `partitions`: how many."""

    code, title = "PARTITIONS", "The topic has another number of partitions; nothing was changed"


class TokenReused(Rejected):
    """Says that this token and call were used with other ids; nothing was written."""

    code, title = "TOKEN_REUSED", "This token and call were used with other ids"


class ChunkAltered(Rejected):
    """Says that this token and chunk were staged with other rows; nothing was written."""

    code, title = "CHUNK_ALTERED", "This token and chunk were staged with other rows"


class OffsetTrimmed(Rejected):
    """Says that the offset lies below the lowest that is kept."""

    code, title = "OFFSET_TRIMMED", "The offset lies below the lowest kept"


class OffsetBeyondEnd(Rejected):
    """Says that the offset lies beyond the end of the partition."""

    code, title = "OFFSET_BEYOND_END", "The offset lies beyond the end"


class UnknownProducer(Rejected):
    """Says that this producer and epoch are not known here: it has to register first."""

    code, title = "UNKNOWN_PRODUCER", "This producer and epoch are not known here: register first"


class UnknownDriver(Rejected):
    """Says that this driver and epoch are not known here: it has to register first."""

    code, title = "UNKNOWN_DRIVER", "This driver and epoch are not known here: register first"


class OtherDriver(Rejected):
    """Says that the producer belongs to another driver; nothing was changed."""

    code, title = "OTHER_DRIVER", "The producer belongs to another driver"


class SourceReplaced(Stop):
    """Says that the producer's sequences are of another source than the caller's; nothing was changed."""

    code, title = "SOURCE_REPLACED", "The producer's sequences are of another source"


class UnknownClaim(Stop):
    """Says that nothing is known of this claim: it never was, or it is forgotten."""

    code, title = "UNKNOWN_CLAIM", "Nothing is known of this claim"


class ReleasedClaim(Stop):
    """Says that this claim was released: its ids may be another's."""

    code, title = "RELEASED_CLAIM", "This claim was released"


class Fenced(Stop):
    """Says that a later registration has taken this one's place."""

    code, title = "FENCED", "A later registration has taken this one's place"


class Gap(Stop):
    """Says that sequences before these were never claimed; nothing was written."""

    code, title = "GAP", "Sequences before these were never claimed"


class OutOfOrder(Stop):
    """Says that later sequences were claimed already; nothing was written."""

    code, title = "OUT_OF_ORDER", "Later sequences were claimed already"


class NotDriver(Stop):
    """Says that only the driver acks; nothing was acked."""

    code, title = "NOT_DRIVER", "Only the driver acks"


class NotDone(Stop):
    """Says that not all of this is done; this part was not acked."""

    code, title = "NOT_DONE", "Not all of this is done: this part was not acked"


class OlderBatch(Stop):
    """Says that a later batch was acked already; nothing was acked."""

    code, title = "OLDER_BATCH", "A later batch was acked already: nothing was acked"


class SecondWrite(Stop):
    """Says that one run writes twice to one topic under one name; nothing was written."""

    code, title = "SECOND_WRITE", "One run writes twice to one topic under one name"


class BatchConflict(Stop):
    """Says that other input came under a number that is already committed; nothing was written."""

    code, title = "BATCH_CONFLICT", "Other input under a number that is already committed"


class BatchForgotten(Stop):
    """Says that this batch was committed too long ago to be compared."""

    code, title = "BATCH_FORGOTTEN", "This batch was committed too long ago to be compared"


class TopicReplaced(Stop):
    """Says that a topic elsewhere was deleted and made again since rows of these were written to it; nothing was
    written."""

    code, title = "TOPIC_REPLACED", "The topic was made again since rows were written to it; nothing was written"


class LedgerBehind(Stop):
    """Says that the caller saw a later ledger than this one."""

    code, title = "LEDGER_BEHIND", "The caller saw a later ledger than this one"


class LedgerDamaged(Stop):
    """Says that what is on disk is not what was acknowledged."""

    code, title = "LEDGER_DAMAGED", "What is on disk is not what was acknowledged"


class LedgerBusy(Stop):
    """Says that another process owns the data folder."""

    code, title = "LEDGER_BUSY", "Another process owns the data folder"


class KeyMismatch(Stop):
    """Says that the ledger was written with another key."""

    code, title = "KEY_MISMATCH", "The ledger was written with another key"
