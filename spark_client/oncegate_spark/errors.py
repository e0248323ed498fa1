"""Everything the client can raise, what the caller can do about it, and what was written.

* OncegateError           `.outcome` says written, not written or unknown; the text ends with the same words
  + Unavailable             no answer that decides came in time; the same work may be tried again
    - Unreachable             no try reached the gateway: not written
    - TurnedAway              the gateway answered each time that it cannot now: not written
    - Unanswered              a request was sent and no answer came: unknown
    - ProducerBusy            another attempt holds the producer, and its lease lives: not written
  + Refused                 fix the request, the data or the option; trying again cannot help: not written
    - BadOption               an option is missing, unknown or contradicts another
    - BadId                   an id column is missing, of another type, or holds a null or empty id
    - NoIdentity              nothing names this write, so that a retry could not be recognised
    - NotFound                no such namespace, topic or path
    - OtherDriver             the producer belongs to another driver
    - NotRegistered           the gateway knows no such producer or driver, or not in this epoch
    - OffsetTrimmed           rows below `.low_offset` are gone: the topic's retention dropped them
  + Stopped                 this attempt is over; a person, or whoever owns the retries, must look
    - SecondWrite             one run writes twice to one topic under one name
    - Conflict                other input under a number that is already committed
    - PayloadConflict         ids that are written with another payload than they come with
    - BatchForgotten          committed so long ago that rows can no longer be compared
    - MissingStage            a winner's stage is gone: Spark's next try writes the batch again
    - LedgerBehind            the gateway knows less than it has told us before
    - LostClaim               the claim is unknown or released: unknown
    - Fenced                  a newer attempt has the producer, or a newer driver the retries
    - Gap                     what came before these sequences was never claimed: it is lost, or was skipped
    - OutOfOrder              sequences below some that were claimed: the lane is split, shuffled or not deterministic
    - NotDriver               only who owns the retries may ack, under its own token
    - NotDone                 what was to be acked is claimed and not done: nothing was acked
    - BatchOver               rows of a batch that was acked: a task that outlived it, or a restored checkpoint
    - BrokenMessages          Spark hands over what no task of ours has written
    - Unreadable              the gateway answered 200 with what we cannot read: unknown
  + Unsettled               a claim was not brought to its end
    - StillBusy               another attempt holds ids and neither completes nor lets go
    - NotCompleted            the block was left without complete or release: unknown
  + TaskFailed              a Spark task gave up; says where, why, and what it has written

A bug is an `assert`, never one of these.
"""

from enum import Enum


class Outcome(Enum):
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
    pass


class Unreachable(Unavailable):
    pass


class TurnedAway(Unavailable):
    pass


class Unanswered(Unavailable):
    outcome = Outcome.UNKNOWN


class ProducerBusy(Unavailable):
    code = "PRODUCER_BUSY"

    @property
    def lease_left_ms(self) -> int:
        """How long the holder's lease still runs; it may close before."""
        left = self.extra.get("lease_left_ms")
        return left if isinstance(left, int) else 0


class Refused(OncegateError):
    pass


class BadOption(Refused):
    pass


class BadId(Refused):
    pass


class NoIdentity(Refused):
    pass


class NotFound(Refused):
    pass


class OtherDriver(Refused):
    pass


class NotRegistered(Refused):
    pass


class OffsetTrimmed(Refused):
    @property
    def low_offset(self) -> int:
        """The lowest offset that is still kept."""
        low = self.extra.get("low_offset")
        return low if isinstance(low, int) else 0


class Stopped(OncegateError):
    pass


class SecondWrite(Stopped):
    pass


class Conflict(Stopped):
    pass


class PayloadConflict(Stopped):
    code = "PAYLOAD_CONFLICT"

    @property
    def count(self) -> int:
        """How many ids."""
        count = self.extra.get("count")
        return count if isinstance(count, int) else 0


class BatchForgotten(Stopped):
    pass


class MissingStage(Stopped):
    pass


class LedgerBehind(Stopped):
    pass


class LostClaim(Stopped):
    outcome = Outcome.UNKNOWN


class Fenced(Stopped):
    code = "FENCED"


class Gap(Stopped):
    code = "GAP"


class OutOfOrder(Stopped):
    code = "OUT_OF_ORDER"


class NotDriver(Stopped):
    code = "NOT_DRIVER"


class NotDone(Stopped):
    code = "NOT_DONE"


class BatchOver(Stopped):
    code = "BATCH_OVER"


class BrokenMessages(Stopped):
    pass


class Unreadable(Stopped):
    outcome = Outcome.UNKNOWN
    code = "UNREADABLE"


class Unsettled(OncegateError):
    pass


class StillBusy(Unsettled):
    pass


class NotCompleted(Unsettled):
    outcome = Outcome.UNKNOWN


class TaskFailed(OncegateError):
    pass


BY_CODE: dict[str, type[OncegateError]] = {
    "NULL_ID": BadId,
    "NOT_FOUND": NotFound,
    "OFFSET_TRIMMED": OffsetTrimmed,
    "SECOND_WRITE": SecondWrite,
    "CONFLICT": Conflict,
    "BATCH_FORGOTTEN": BatchForgotten,
    "MISSING_STAGE": MissingStage,
    "LEDGER_BEHIND": LedgerBehind,
    "UNKNOWN_CLAIM": LostClaim,
    "RELEASED_CLAIM": LostClaim,
    "PRODUCER_BUSY": ProducerBusy,
    "OTHER_DRIVER": OtherDriver,
    "UNKNOWN_PRODUCER": NotRegistered,
    "UNKNOWN_DRIVER": NotRegistered,
    "FENCED": Fenced,
    "GAP": Gap,
    "OUT_OF_ORDER": OutOfOrder,
    "NOT_DRIVER": NotDriver,
    "NOT_DONE": NotDone,
}

BY_ACTION: dict[str, type[OncegateError]] = {"retry": TurnedAway, "fix": Refused, "stop": Stopped}
