"""The client's exceptions, with the caller's next step and whether rows were written.

* OncegateError           `.outcome` is WRITTEN, NOT_WRITTEN or UNKNOWN; the message ends with the same words
  + Unavailable             the gateway did not decide in time; retry the same work
    - Unreachable             no try reached the gateway: not written
    - TurnedAway              the gateway answered every try with a retryable refusal: not written
    - Unanswered              a request was sent and its reply never came: unknown
    - ProducerBusy            another attempt holds the producer under a live lease: not written
    - SpillFull               the gateway is down, and the spill folder cannot take the rows
  + Refused                 fix the request, the data or the option; a retry cannot help: not written
    - BadOption               an option is missing, unknown or contradicts another
    - BadId                   an id column is missing or of a wrong type, or an id is null or empty
    - NoIdentity              the write has no name, so a retry could not be recognised
    - NotFound                the namespace, topic or path does not exist
    - TooManyNamespaces       the limit of namespaces is reached: delete one, or raise the gateway's limit
    - NotEmpty                the namespace to be deleted is not empty
    - OtherDriver             the producer belongs to another driver
    - NotRegistered           the producer or driver is not registered, or only under another epoch
    - OffsetTrimmed           rows below `.low_offset` were deleted by the topic's retention
  + Stopped                 this attempt cannot continue; a person or the owner of the retries must act
    - SecondWrite             one run writes to one topic twice under the same name
    - BatchConflict           the batch number was committed with other input
    - PayloadConflict         ids were written before with another payload
    - BatchForgotten          the batch was committed so long ago that its rows can no longer be compared
    - MissingStage            the stage of a winning task is gone: Spark's next attempt writes the batch again
    - SourceReplaced          the producer numbers another source: its topic was deleted and created again
    - LedgerBehind            the gateway has lost something that it acknowledged before
    - LostClaim               the claim is unknown or was released: unknown
    - Fenced                  a newer attempt owns the producer, or a newer driver owns the retries
    - Gap                     earlier sequences were never claimed: they were lost or skipped
    - OutOfOrder              sequences are below claimed ones: the lane is split, shuffled or not deterministic
    - NotDriver               only the driver may ack, under its own token
    - OlderBatch              a later batch was acked already: nothing was acked
    - BatchOver               the batch was acked: its task outlived it, or a checkpoint was restored
    - BrokenMessages          Spark delivered commit messages that no task of this package wrote
    - Unreadable              the gateway answered 200 with a body that cannot be parsed: unknown
  + Unsettled               a claim was neither completed nor released
    - StillBusy               another attempt holds ids and neither completes nor releases them
    - NotCompleted            the block was left without complete or release: unknown
    - InDoubt                 some records may or may not be written: unknown
  + SinkRefused             a sink rejected all of the records: not written
  + TaskFailed              a Spark task gave up; the message has the place, the cause and the rows written

Bugs raise AssertionError, never one of these.
"""

from enum import Enum


class Outcome(Enum):
    """Effect of a failed call on its rows: written, not written, or unknown."""

    NOT_WRITTEN = "nothing was written"
    WRITTEN = "written"
    UNKNOWN = "unknown"


NOTHING = f"; {Outcome.NOT_WRITTEN.value}"  # ending of an error message when nothing was written


class OncegateError(Exception):
    """Base of the client's errors.

    `code` is the gateway's error code, or CLIENT if the client itself raised. `extra` holds the other members of the
    problem document.
    """

    outcome: Outcome = Outcome.NOT_WRITTEN
    code: str = "CLIENT"

    def __init__(self, text: str, *, outcome: Outcome | None = None, code: str | None = None, **extra: object) -> None:
        super().__init__(text)
        self.outcome = outcome or type(self).outcome
        self.code = code or type(self).code
        self.extra = extra


class Unavailable(OncegateError):
    """The gateway did not decide in time; the same work may be retried."""


class Unreachable(Unavailable):
    """No try reached the gateway: nothing was written."""


class TurnedAway(Unavailable):
    """The gateway answered every try with a retryable refusal: nothing was written."""


class Unanswered(Unavailable):
    """A request was sent and its reply never came: the effect is unknown."""

    outcome = Outcome.UNKNOWN


class ProducerBusy(Unavailable):
    """Another attempt holds the producer under a live lease: nothing was written."""

    code = "PRODUCER_BUSY"

    @property
    def lease_left_ms(self) -> int:
        """Returns the rest of the holder's lease; the holder may close earlier."""
        left = self.extra.get("lease_left_ms")
        return left if isinstance(left, int) else 0


class SpillFull(Unavailable):
    """The gateway is down, and the folder of `on_down="spill"` is full or its disk rejects the rows.

    Nothing was spilled. Nothing was written either, unless `outcome` is UNKNOWN: then an earlier request lost its
    reply.
    """

    code = "SPILL_FULL"


class Refused(OncegateError):
    """The request, the data or an option is wrong, and a retry cannot help: nothing was written."""


class BadOption(Refused):
    """An option is missing, unknown, or contradicts another."""


class BadId(Refused):
    """An id column is missing or of a wrong type, or an id is null or empty."""


class NoIdentity(Refused):
    """The write has no name, so a retry could not be recognised."""


class NotFound(Refused):
    """The namespace, topic or path does not exist."""


class TooManyNamespaces(Refused):
    """The gateway's limit `namespaces` is reached: delete a namespace, or raise the limit."""

    code = "TOO_MANY_NAMESPACES"


class NotEmpty(Refused):
    """The namespace to be deleted is not empty, and `confirm` was not its name."""

    code = "NOT_EMPTY"

    @property
    def holds(self) -> dict[str, int]:
        """Returns the numbers of ids, topics, stages, batches, producers and drivers; kinds with none are left out."""
        holds = self.extra.get("holds")
        return dict(holds) if isinstance(holds, dict) else {}


class OtherDriver(Refused):
    """The producer belongs to a different driver."""


class NotRegistered(Refused):
    """The producer or driver is not registered at the gateway, or only under a different epoch."""


class OffsetTrimmed(Refused):
    """Rows below `low_offset` were deleted by the topic's retention."""

    @property
    def low_offset(self) -> int:
        """Returns the lowest offset that is still kept."""
        low = self.extra.get("low_offset")
        return low if isinstance(low, int) else 0


class Stopped(OncegateError):
    """This attempt cannot continue; a person or the owner of the retries must act."""


class SecondWrite(Stopped):
    """One run writes to one topic twice under the same name; give each write its own `writeId`."""


class BatchConflict(Stopped):
    """The batch number was committed with different input."""


class PayloadConflict(Stopped):
    """Ids were already written with a different payload; `count` is the number of such ids."""

    code = "PAYLOAD_CONFLICT"

    @property
    def count(self) -> int:
        count = self.extra.get("count")
        return count if isinstance(count, int) else 0


class BatchForgotten(Stopped):
    """The batch was committed so long ago that its rows can no longer be compared."""


class MissingStage(Stopped):
    """The stage of a winning task is gone; Spark's next attempt writes the batch again."""


class SourceReplaced(Stopped):
    """The producer's sequences belong to a different source, for example after its topic was deleted and recreated."""


class LedgerBehind(Stopped):
    """The gateway has lost entries that it acknowledged: it serves an older copy of its ledger."""


class LostClaim(Stopped):
    """The claim is unknown or was released: whether its rows were written is unknown."""

    outcome = Outcome.UNKNOWN


class Fenced(Stopped):
    """A newer attempt has registered as this producer, or a newer driver under the same name."""

    code = "FENCED"


class Gap(Stopped):
    """Earlier sequences were never claimed: they were lost or skipped."""

    code = "GAP"


class OutOfOrder(Stopped):
    """Sequences are below claimed ones: the lane is split, shuffled or not deterministic."""

    code = "OUT_OF_ORDER"


class NotDriver(Stopped):
    """Only the driver may ack, under its own token."""

    code = "NOT_DRIVER"


class OlderBatch(Stopped):
    """A later batch was acked already: nothing was acked. Member `batch` of `extra` is that batch."""

    code = "OLDER_BATCH"


class BatchOver(Stopped):
    """The batch of the rows was acked: its task outlived it, or a checkpoint was restored."""

    code = "BATCH_OVER"


class BrokenMessages(Stopped):
    """Spark delivered commit messages that no task of this package wrote."""


class Unreadable(Stopped):
    """The gateway answered 200 with a body that cannot be parsed: the effect is unknown."""

    outcome = Outcome.UNKNOWN
    code = "UNREADABLE"


class Unsettled(OncegateError):
    """A claim was neither completed nor released."""


class StillBusy(Unsettled):
    """Another attempt holds ids and neither completes nor releases them."""


class NotCompleted(Unsettled):
    """The block was left without complete or release: whether its ids were written is unknown."""

    outcome = Outcome.UNKNOWN


class InDoubt(Unsettled):
    """Records `ids` may or may not be written, until a person finds out.

    Raised by a sink that cannot tell, and for ids whose lease expired in a namespace that forbids takeovers
    (`lease_expiry` is fail).
    """

    outcome = Outcome.UNKNOWN
    code = "IN_DOUBT"

    @property
    def ids(self) -> list[str]:
        ids = self.extra.get("ids")
        return list(ids) if isinstance(ids, list) else []


class SinkRefused(OncegateError):
    """A sink rejected all of the records: none was written, and none will be written by this call."""

    code = "SINK_REFUSED"


class TaskFailed(OncegateError):
    """A Spark task gave up; the message has the place, the cause and the rows written."""


BY_CODE: dict[str, type[OncegateError]] = {
    "NULL_ID": BadId,
    "NOT_FOUND": NotFound,
    "TOO_MANY_NAMESPACES": TooManyNamespaces,
    "NOT_EMPTY": NotEmpty,
    "OFFSET_TRIMMED": OffsetTrimmed,
    "SECOND_WRITE": SecondWrite,
    "BATCH_CONFLICT": BatchConflict,
    "BATCH_FORGOTTEN": BatchForgotten,
    "MISSING_STAGE": MissingStage,
    "LEDGER_BEHIND": LedgerBehind,
    "OFFSET_BEYOND_END": LedgerBehind,
    "UNKNOWN_CLAIM": LostClaim,
    "RELEASED_CLAIM": LostClaim,
    "PRODUCER_BUSY": ProducerBusy,
    "OTHER_DRIVER": OtherDriver,
    "SOURCE_REPLACED": SourceReplaced,
    "UNKNOWN_PRODUCER": NotRegistered,
    "UNKNOWN_DRIVER": NotRegistered,
    "FENCED": Fenced,
    "GAP": Gap,
    "OUT_OF_ORDER": OutOfOrder,
    "NOT_DRIVER": NotDriver,
    "OLDER_BATCH": OlderBatch,
}

BY_ACTION: dict[str, type[OncegateError]] = {"retry": TurnedAway, "fix": Refused, "stop": Stopped}
