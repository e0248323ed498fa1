"""Defines every error that refuses a request, and what the caller can do about it.

* OncegateError
  + Retryable           the same request may be sent again
    - Overloaded          too much in flight: nothing was written
    - Recovering, KeysUnread  the index is being rebuilt, or an issuer's keys are being fetched: nothing was written
    - QuotaExceeded, LedgerFull  a quota is used up, or the ledger has no room: nothing was written
    - LedgerDown          the ledger failed while writing: unknown whether it was written
    - LedgerFenced        another gateway owns the ledger: nothing was written here, ask that one
    - BodyTooSlow, Stopping  the body arrived too slowly, or the gateway is draining or stopping: nothing was written
    - DeadlinePassed      the caller's deadline passed before the decision or the end of a read: nothing was written
    - MissingStage        a winner's stage is gone: the batch must be written again
    - ProducerBusy, LeaseLive  another attempt has a live lease on it: nothing was changed
  + Rejected            fix the request; sending it again cannot help
    - BadRequest, NullId  malformed body, header, parameter or chunk; an id is null or empty
    - TooLarge            body, batch, id or record over its limit
    - LengthRequired, TargetTooLong, HeadTooLarge  a body without Content-Length, or too long a head
    - Misdirected, ForeignOrigin  for another host, or from another site
    - Unauthenticated, Forbidden  no valid key, or a key without the right
    - NotAcceptable, UnsupportedMedia, NotFound, MethodNotAllowed  no such encoding, path, namespace, topic or method
    - SchemaMismatch      the rows do not match the topic's schema
    - OtherPartitions, ReadElsewhere  the topic has another number of partitions; its rows are read from its brokers
    - TokenReused, ChunkAltered  the same token with other ids under its call, or other rows under its chunk
    - OffsetTrimmed, OffsetBeyondEnd  the offset is below the lowest one kept, or beyond the end
    - UnknownProducer, UnknownDriver  register first
    - TooManyNamespaces, NotEmpty  delete another one first; delete this one by repeating its name
    - OtherDriver         the producer belongs to another driver
  + Stop                this attempt is over; a person or the caller's owner must look
    - UnknownClaim, ReleasedClaim
    - SourceReplaced      the producer's sequences are of another source, e.g. its topic was created again
    - Gap, OutOfOrder     earlier sequences were never claimed, or later ones were: split or shuffled
    - Fenced, NotDriver   a later registration has replaced this one; only the driver acks
    - NotDone, OlderBatch  the ack covers something claimed and not done, or a batch before the last acked one
    - SecondWrite         one run writes twice to one topic under one name
    - BatchConflict, BatchForgotten  other input under a committed number; a number that can no longer be compared
    - TopicReplaced       the topic was deleted and created again: rows known to the dedup scope are gone
    - LedgerBehind, LedgerDamaged  the caller saw a later ledger than this one; the ledger is not what was acknowledged
    - LedgerBusy, KeyMismatch  another process owns the data folder; the ledger was written with another key

A bug is an `assert`, never one of these.
"""

from typing import ClassVar, Literal

NextStep = Literal["retry", "fix", "stop"]


class SettingsError(ValueError):
    """An unusable setting; the message is one line for a person."""


class OncegateError(Exception):
    """A refused request. `detail` is one sentence for a person; `extra` adds members to the problem document."""

    code: ClassVar[str]
    title: ClassVar[str]
    action: ClassVar[NextStep]
    retry_after_ms: ClassVar[int | None] = None

    def __init__(self, detail: str, **extra: object) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class Retryable(OncegateError):
    """A temporary refusal: the same request may succeed later, after `retry_after_ms` if that is set."""

    action = "retry"
    retry_after_ms: ClassVar[int | None] = 1_000


class Rejected(OncegateError):
    """An invalid request: the caller's code or configuration has to be fixed."""

    action = "fix"


class TooManyNamespaces(Rejected):
    """Raised when the maximum number of namespaces is reached. Nothing was created."""

    code, title = "TOO_MANY_NAMESPACES", "The limit of namespaces is reached; nothing was created"


class NotEmpty(Rejected):
    """Raised when a namespace to be deleted is not empty. Nothing was deleted. `holds`: its content, counted by
    kind."""

    code, title = "NOT_EMPTY", "The namespace is not empty; nothing was deleted"


class Stop(OncegateError):
    """A final refusal: the caller must not continue as it does."""

    action = "stop"


class Overloaded(Retryable):
    """Raised when too many requests or bytes are in flight. Nothing was written."""

    code, title, retry_after_ms = "OVERLOADED", "Too much in flight; nothing was written", 200


class Recovering(Retryable):
    """Raised while the index is rebuilt from the ledger. Nothing was written."""

    code, title = "RECOVERING", "The index is being rebuilt from the ledger; nothing was written"


class KeysUnread(Retryable):
    """Raised when a token cannot be checked because its issuer's keys are still being fetched. Nothing was written."""

    code, title = "KEYS_UNREAD", "The issuer's keys are being fetched; nothing was written"


class QuotaExceeded(Retryable):
    """Raised when a quota of the namespace or tenant is used up: stages, open claims, ids or bytes. No effect."""

    code, title, retry_after_ms = "QUOTA", "A quota is used up; nothing was written", 5_000


class LedgerFull(Retryable):
    """Raised when the ledger is out of space. Nothing was written, and the ledger stays open."""

    code, title, retry_after_ms = "LEDGER_FULL", "The ledger has no room; nothing was written", 5_000


class LedgerDown(Retryable):
    """Raised when the ledger failed. Whether the request was written is unknown until the ledger is reopened."""

    code, title = "LEDGER_DOWN", "The ledger failed; whether this was written is unknown"


class LedgerFenced(Retryable):
    """Raised when this gateway no longer owns the ledger. It writes nothing more; the new owner answers the same
    request.
    """

    code, title = "LEDGER_FENCED", "This gateway no longer owns the ledger; nothing was written"


class DeadlinePassed(Retryable):
    """Raised when the deadline passed before the decision, or before a read was complete. Nothing was written."""

    code, title = "DEADLINE", "The deadline passed; nothing was written"


class BodyTooSlow(Retryable):
    """Raised when a body arrived below the minimum rate and was abandoned. Nothing was written."""

    code, title = "BODY_TOO_SLOW", "The body arrived too slowly; nothing was written"


class Stopping(Retryable):
    """Raised when an operator drains the gateway, or when it stops before the body arrived. Nothing was written."""

    code, title = "STOPPING", "The gateway is draining or stopping; nothing was written"


class MissingStage(Retryable):
    """Raised when a winner's stage is missing: the batch must be written again."""

    code, title = "MISSING_STAGE", "A winner's stage is missing: write the batch again"
    retry_after_ms = None


class ProducerBusy(Retryable):
    """Raised when another attempt holds the producer. Nothing was changed."""

    code, title, retry_after_ms = "PRODUCER_BUSY", "Another attempt holds this producer; nothing was changed", None


class LeaseLive(Retryable):
    """Raised when a live lease still holds the claim or sequences to be resolved. Nothing was changed."""

    code, title, retry_after_ms = "LEASE_LIVE", "A live lease holds this; nothing was changed", None


class BadRequest(Rejected):
    """Raised when the request cannot be parsed. Nothing was written."""

    code, title = "BAD_REQUEST", "The request cannot be read"


class NullId(Rejected):
    """Raised when an id is null or empty. Nothing was written."""

    code, title = "NULL_ID", "An id is null or empty"


class TooLarge(Rejected):
    """Raised when something exceeds a limit. Nothing was written."""

    code, title = "TOO_LARGE", "Over a limit (GET /v1/limits)"


class TargetTooLong(Rejected):
    """Raised when the path with its query is too long. Nothing was written."""

    code, title = "TARGET_TOO_LONG", "The path with its query is too long"


class HeadTooLarge(Rejected):
    """Raised when the request's header fields are too large. Nothing was written."""

    code, title = "HEAD_TOO_LARGE", "The header fields are too large"


class Misdirected(Rejected):
    """Raised when the request names a host that is not this gateway. Nothing was written."""

    code, title = "MISDIRECTED", "The host is not a name of this gateway"


class ForeignOrigin(Rejected):
    """Raised when a page of another site sent the request. Nothing was written."""

    code, title = "FOREIGN_ORIGIN", "Pages of other sites may not call the gateway"


class LengthRequired(Rejected):
    """Raised when a body comes without its length. The body was not read."""

    code, title = "LENGTH_REQUIRED", "A body needs a Content-Length"


class Unauthenticated(Rejected):
    """Raised when the request brings no valid key. Nothing was written."""

    code, title = "UNAUTHENTICATED", "A valid key is needed; nothing was written"


class Forbidden(Rejected):
    """Raised when the caller's key lacks the permission, whether or not the resource exists. Nothing was written."""

    code, title = "FORBIDDEN", "The key may not do this; nothing was written"


class NotAcceptable(Rejected):
    """Raised when the caller accepts none of the available representations."""

    code, title = "NOT_ACCEPTABLE", "No acceptable representation"


class UnsupportedMedia(Rejected):
    """Raised when the content type is not supported by the route."""

    code, title = "UNSUPPORTED_MEDIA", "The content type is not supported here"


class NotFound(Rejected):
    """Raised when the resource does not exist."""

    code, title = "NOT_FOUND", "Not found"


class MethodNotAllowed(Rejected):
    """Raised when the path does not support the method."""

    code, title = "METHOD_NOT_ALLOWED", "The path does not support this method"


class SchemaMismatch(Rejected):
    """Raised when the rows do not match the topic's schema. Nothing was written."""

    code, title = "SCHEMA", "The rows do not match the topic's schema"


class ReadElsewhere(Rejected):
    """Raised when a topic's rows must be read from another system. `brokers`, `topic`: where."""

    code, title = "READ_ELSEWHERE", "The rows of this topic are read from its brokers, not from the gateway"


class OtherPartitions(Rejected):
    """Raised when a topic exists with a different number of partitions. Nothing was changed. `partitions`: that
    number."""

    code, title = "PARTITIONS", "The topic has another number of partitions; nothing was changed"


class TokenReused(Rejected):
    """Raised when this token and call were already used with different ids. Nothing was written."""

    code, title = "TOKEN_REUSED", "This token and call were used with other ids"


class ChunkAltered(Rejected):
    """Raised when this token and chunk were already staged with different rows. Nothing was written."""

    code, title = "CHUNK_ALTERED", "This token and chunk were staged with other rows"


class OffsetTrimmed(Rejected):
    """Raised when the offset is below the lowest retained offset."""

    code, title = "OFFSET_TRIMMED", "The offset is below the lowest one kept"


class OffsetBeyondEnd(Rejected):
    """Raised when the offset is beyond the end of the partition."""

    code, title = "OFFSET_BEYOND_END", "The offset is beyond the end"


class UnknownProducer(Rejected):
    """Raised when the producer or its epoch is unknown: it has to register first."""

    code, title = "UNKNOWN_PRODUCER", "The producer or its epoch is unknown: register first"


class UnknownDriver(Rejected):
    """Raised when the driver or its epoch is unknown: it has to register first."""

    code, title = "UNKNOWN_DRIVER", "The driver or its epoch is unknown: register first"


class OtherDriver(Rejected):
    """Raised when the producer belongs to another driver. Nothing was changed."""

    code, title = "OTHER_DRIVER", "The producer belongs to another driver"


class SourceReplaced(Stop):
    """Raised when the producer's sequences belong to a different source from the caller's. Nothing was changed."""

    code, title = "SOURCE_REPLACED", "The producer's sequences are of another source"


class UnknownClaim(Stop):
    """Raised when the claim is unknown: it never existed, or is forgotten."""

    code, title = "UNKNOWN_CLAIM", "The claim is unknown"


class ReleasedClaim(Stop):
    """Raised when the claim was released: its ids may belong to another caller."""

    code, title = "RELEASED_CLAIM", "This claim was released"


class Fenced(Stop):
    """Raised when a newer registration of the producer or driver has superseded the caller's."""

    code, title = "FENCED", "A later registration has replaced this one"


class Gap(Stop):
    """Raised when earlier sequences of the producer were never claimed. Nothing was written."""

    code, title = "GAP", "Sequences before these were never claimed"


class OutOfOrder(Stop):
    """Raised when later sequences of the producer were already claimed. Nothing was written."""

    code, title = "OUT_OF_ORDER", "Later sequences were already claimed"


class NotDriver(Stop):
    """Raised when a caller other than the driver acks. Nothing was acked."""

    code, title = "NOT_DRIVER", "Only the driver acks"


class NotDone(Stop):
    """Raised when part of the acked range is not done. This part was not acked."""

    code, title = "NOT_DONE", "Part of the range is not done: this part was not acked"


class OlderBatch(Stop):
    """Raised when a later batch was already acked. Nothing was acked."""

    code, title = "OLDER_BATCH", "A later batch was already acked: nothing was acked"


class SecondWrite(Stop):
    """Raised when one run writes twice to one topic under one name. Nothing was written."""

    code, title = "SECOND_WRITE", "One run writes twice to one topic under one name"


class BatchConflict(Stop):
    """Raised when a batch number was already committed with different input. Nothing was written."""

    code, title = "BATCH_CONFLICT", "Other input under a number that is already committed"


class BatchForgotten(Stop):
    """Raised when the batch was committed too long ago to be compared."""

    code, title = "BATCH_FORGOTTEN", "This batch was committed too long ago to be compared"


class TopicReplaced(Stop):
    """Raised when an external topic was deleted and created again since rows were written to it. Nothing was
    written."""

    code, title = "TOPIC_REPLACED", "The topic was created again since rows were written to it; nothing was written"


class LedgerBehind(Stop):
    """Raised when the caller has seen a later state of the ledger than this gateway has."""

    code, title = "LEDGER_BEHIND", "The caller saw a later ledger than this one"


class LedgerDamaged(Stop):
    """Raised when the stored ledger differs from what was acknowledged."""

    code, title = "LEDGER_DAMAGED", "The stored ledger is not the acknowledged one"


class LedgerBusy(Stop):
    """Raised when another process owns the data folder."""

    code, title = "LEDGER_BUSY", "Another process owns the data folder"


class KeyMismatch(Stop):
    """Raised when the ledger was written with a different key."""

    code, title = "KEY_MISMATCH", "The ledger was written with another key"
