"""Everything the client can raise, what the caller can do about it, and what was written.

* OncegateError           `.outcome` says written, not written or unknown; the text ends with the same words
  + Unavailable             no answer that decides came in time; the same work may be tried again
    - Unreachable             no try reached the gateway: not written
    - TurnedAway              the gateway answered each time that it cannot now: not written
    - Unanswered              a request was sent and no answer came: unknown
    - ProducerBusy            another attempt holds the producer, and its lease lives: not written
    - SpillFull               the gateway is down, and its rows cannot be laid down here either
  + Refused                 fix the request, the data or the option; trying again cannot help: not written
    - BadOption               an option is missing, unknown or contradicts another
    - BadId                   an id column is missing, of another type, or holds a null or empty id
    - NoIdentity              nothing names this write, so that a retry could not be recognised
    - NotFound                no such namespace, topic or path
    - TooManyNamespaces       there are as many as may be: delete one, or raise the gateway's limit
    - NotEmpty                the namespace that is to be deleted holds something
    - OtherDriver             the producer belongs to another driver
    - NotRegistered           the gateway knows no such producer or driver, or not in this epoch
    - OffsetTrimmed           rows below `.low_offset` are gone: the topic's retention dropped them
  + Stopped                 this attempt is over; a person, or whoever owns the retries, must look
    - SecondWrite             one run writes twice to one topic under one name
    - BatchConflict           other input under a number that is already committed
    - PayloadConflict         ids that are written with another payload than they come with
    - BatchForgotten          committed so long ago that rows can no longer be compared
    - MissingStage            a winner's stage is gone: Spark's next try writes the batch again
    - SourceReplaced          the producer's sequences are of another source: its topic was made again
    - LedgerBehind            the gateway knows less than it has told us before
    - LostClaim               the claim is unknown or released: unknown
    - Fenced                  a newer attempt has the producer, or a newer driver the retries
    - Gap                     what came before these sequences was never claimed: it is lost, or was skipped
    - OutOfOrder              sequences below some that were claimed: the lane is split, shuffled or not deterministic
    - NotDriver               only who owns the retries may ack, under its own token
    - OlderBatch              a later batch was acked already: nothing was acked
    - BatchOver               rows of a batch that was acked: a task that outlived it, or a restored checkpoint
    - BrokenMessages          Spark hands over what no task of ours has written
    - Unreadable              the gateway answered 200 with what we cannot read: unknown
  + Unsettled               a claim was not brought to its end
    - StillBusy               another attempt holds ids and neither completes nor lets go
    - NotCompleted            the block was left without complete or release: unknown
    - InDoubt                 nobody says whether some records are written: unknown
  + SinkRefused             a sink is certain that it has none of the records: not written
  + TaskFailed              a Spark task gave up; says where, why, and what it has written

A bug is an `assert`, never one of these.
"""

from enum import Enum


class Outcome(Enum):
    """Tells what an error means for the rows it is about: written, not written, or unknown."""

    NOT_WRITTEN = "nothing was written"
    WRITTEN = "written"
    UNKNOWN = "unknown"


NOTHING = f"; {Outcome.NOT_WRITTEN.value}"  # how an error's text ends where nothing was written


class OncegateError(Exception):
    """`code` is the gateway's where it refused, else ours; `extra` holds the problem document's further members."""

    outcome: Outcome = Outcome.NOT_WRITTEN
    code: str = "CLIENT"

    def __init__(self, text: str, *, outcome: Outcome | None = None, code: str | None = None, **extra: object) -> None:
        super().__init__(text)
        self.outcome = outcome or type(self).outcome
        self.code = code or type(self).code
        self.extra = extra


class Unavailable(OncegateError):
    """No answer that decides came in time; the same work may be tried again."""


class Unreachable(Unavailable):
    """No try reached the gateway: nothing was written."""


class TurnedAway(Unavailable):
    """The gateway answered each time that it cannot now: nothing was written."""


class Unanswered(Unavailable):
    """A request was sent and no answer came: what was written is unknown."""

    outcome = Outcome.UNKNOWN


class ProducerBusy(Unavailable):
    """Another attempt holds the producer, and its lease lives: nothing was written."""

    code = "PRODUCER_BUSY"

    @property
    def lease_left_ms(self) -> int:
        """How long the holder's lease still runs; it may close before."""
        left = self.extra.get("lease_left_ms")
        return left if isinstance(left, int) else 0


class SpillFull(Unavailable):
    """The gateway is down, and the folder of `on_down="spill"` has no room for these rows, or its disk refuses them.

    Nothing was laid down. Nothing was written either, unless `outcome` says that this is unknown: a request was sent
    before, whose reply was lost.
    """

    code = "SPILL_FULL"


class Refused(OncegateError):
    """The request, the data or an option is wrong, and trying again cannot help: nothing was written."""


class BadOption(Refused):
    """An option is missing, unknown, or contradicts another."""


class BadId(Refused):
    """An id column is missing, of another type, or holds a null or empty id."""


class NoIdentity(Refused):
    """Nothing names this write, so that a retry could not be recognised."""


class NotFound(Refused):
    """There is no such namespace, topic or path."""


class TooManyNamespaces(Refused):
    """There are as many namespaces as the gateway may have: delete one, or raise its limit `namespaces`."""

    code = "TOO_MANY_NAMESPACES"


class NotEmpty(Refused):
    """The namespace that is to be deleted holds something, and `confirm` did not say its name."""

    code = "NOT_EMPTY"

    @property
    def holds(self) -> dict[str, int]:
        """How many ids, topics, stages, batches, producers and drivers; kinds of which there is none are left out."""
        holds = self.extra.get("holds")
        return dict(holds) if isinstance(holds, dict) else {}


class OtherDriver(Refused):
    """The producer belongs to another driver."""


class NotRegistered(Refused):
    """The gateway knows no such producer or driver, or not in this epoch."""


class OffsetTrimmed(Refused):
    """Rows below `low_offset` are gone: the topic's retention dropped them."""

    @property
    def low_offset(self) -> int:
        """The lowest offset that is still kept."""
        low = self.extra.get("low_offset")
        return low if isinstance(low, int) else 0


class Stopped(OncegateError):
    """This attempt is over; a person, or whoever owns the retries, must look."""


class SecondWrite(Stopped):
    """One run writes twice to one topic under one name; a `writeId` tells the writes apart."""


class BatchConflict(Stopped):
    """Other input came under a number that is already committed."""


class PayloadConflict(Stopped):
    """Ids came with another payload than they are written with; `count` says how many."""

    code = "PAYLOAD_CONFLICT"

    @property
    def count(self) -> int:
        """How many ids."""
        count = self.extra.get("count")
        return count if isinstance(count, int) else 0


class BatchForgotten(Stopped):
    """The batch was committed so long ago that its rows can no longer be compared."""


class MissingStage(Stopped):
    """The staged rows of a winner are gone; Spark's next try writes the batch again."""


class SourceReplaced(Stopped):
    """The producer's sequences are of another source than the caller's, as after its topic was made again."""


class LedgerBehind(Stopped):
    """The gateway knows less than it has told us before: it serves an older copy of its ledger."""


class LostClaim(Stopped):
    """The claim is unknown or released: what was written under it is unknown."""

    outcome = Outcome.UNKNOWN


class Fenced(Stopped):
    """A newer attempt has the producer, or a newer driver owns the retries."""

    code = "FENCED"


class Gap(Stopped):
    """What came before these sequences was never claimed: it is lost, or was skipped."""

    code = "GAP"


class OutOfOrder(Stopped):
    """The sequences lie below some that were claimed: the lane is split, shuffled or not deterministic."""

    code = "OUT_OF_ORDER"


class NotDriver(Stopped):
    """Only who owns the retries may ack, under its own token."""

    code = "NOT_DRIVER"


class OlderBatch(Stopped):
    """A later batch was acked already: nothing was acked. `batch` of the problem's members is that one."""

    code = "OLDER_BATCH"


class BatchOver(Stopped):
    """The rows are of a batch that was acked: a task outlived it, or a checkpoint was restored."""

    code = "BATCH_OVER"


class BrokenMessages(Stopped):
    """Spark hands over what no task of ours has written."""


class Unreadable(Stopped):
    """The gateway answered 200 with what we cannot read: what was written is unknown."""

    outcome = Outcome.UNKNOWN
    code = "UNREADABLE"


class Unsettled(OncegateError):
    """A claim was not brought to its end."""


class StillBusy(Unsettled):
    """Another attempt holds ids and neither completes nor lets go."""


class NotCompleted(Unsettled):
    """The block was left without complete or release: what was written is unknown."""

    outcome = Outcome.UNKNOWN


class InDoubt(Unsettled):
    """Nobody says whether the records `ids` are written: a sink, or a holder whose lease ran out where the namespace
    lets nobody take over (`lease_expiry` is fail). Unknown, until a person finds out."""

    outcome = Outcome.UNKNOWN
    code = "IN_DOUBT"

    @property
    def ids(self) -> list[str]:
        """The ids of those records."""
        ids = self.extra.get("ids")
        return list(ids) if isinstance(ids, list) else []


class SinkRefused(OncegateError):
    """A sink is certain that it has none of the records, and that none will come of this call."""

    code = "SINK_REFUSED"


class TaskFailed(OncegateError):
    """A Spark task gave up; the text says where, why, and what it has written."""


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
