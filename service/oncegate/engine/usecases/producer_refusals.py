"""Builds the errors for refused requests about producers and drivers, with the cause and the remedies."""

from oncegate.core.errors import (
    Fenced,
    Gap,
    NotDone,
    NotDriver,
    OlderBatch,
    OncegateError,
    OtherDriver,
    OutOfOrder,
    Overloaded,
    ProducerBusy,
    TooLarge,
    UnknownDriver,
    UnknownProducer,
)
from oncegate.core.producers import Entrance, Registration
from oncegate.engine.producer_requests import AckRequest, ProducerRequest
from oncegate.engine.requests import SequenceRequest
from oncegate.index.claims.batch_scopes import OpenClaims
from oncegate.index.producers.store import Driver, ProducerState

# Number of intervals, batches or claims to name for each refused part: enough to look at one by one.
PLACES_MAX = 10

_WAYS = (
    "One task has to hold a contiguous range of a producer's sequences, in order. Ways on: write before any shuffle, "
    "or by ids (ids:claim, or id_col of records:produce), or by named batches (batches:stage)"
)


def not_registered(effect: Registration, request: ProducerRequest, left_ms: int) -> OncegateError:
    if effect is Registration.REFUSE_BUSY:
        return ProducerBusy(
            f"another attempt holds producer {request.producer} for {left_ms} ms more, unless it renews or closes: "
            "register again then; nothing was changed",
            lease_left_ms=left_ms,
            retry_after_ms=left_ms,
        )
    return Fenced(f"another attempt has registered producer {request.producer} after this one: it is over")


def other_driver(producer: ProducerState, driver: str) -> OtherDriver:
    return OtherDriver(
        f"producer {producer.name} belongs to driver {producer.driver}, not {driver}: only one driver can know what "
        "will not be run again. Name that driver, or write under another producer's name; nothing was changed",
        producer=producer.name,
    )


def not_the_producer(effect: Entrance, name: str, epoch: int, producer: ProducerState | None) -> OncegateError:
    """Returns the error for a stale or unknown epoch or token of a producer."""
    if effect is Entrance.REFUSE_UNKNOWN or producer is None:
        return UnknownProducer(f"epoch {epoch} of producer {name} is not known here: register first")
    return Fenced(
        f"epoch {producer.epoch} of producer {name} is another attempt's by now: this one ({epoch}) is over, and what "
        "it had not completed is the other's to write",
        epoch=producer.epoch,
    )


def not_the_driver(effect: Entrance, request: AckRequest, driver: Driver | None) -> OncegateError:
    """Returns the error for a stale or unknown epoch or token of a driver."""
    if effect is Entrance.REFUSE_UNKNOWN or driver is None:
        return UnknownDriver(f"epoch {request.epoch} of driver {request.driver} is not known here: register first")
    if effect is Entrance.REFUSE_FENCED:
        return Fenced(
            f"driver {request.driver} is in epoch {driver.epoch} by now: this one ({request.epoch}) is over; "
            "nothing was acked",
            epoch=driver.epoch,
        )
    return NotDriver(
        f"this token is not driver {request.driver}'s: only who owns the retries knows that nothing will be run again. "
        "A task completes what it wrote, and leaves the ack to its driver; nothing was acked"
    )


def gap(request: SequenceRequest, producer: ProducerState) -> Gap:
    claimed = "nothing" if producer.claimed_to is None else str(producer.claimed_to)
    prev, way = request.prev_sequence, "claim without prev_sequence"
    before = f"the sequence before these is {prev}"
    if prev is None or (producer.claimed_to is not None and prev <= producer.claimed_to):
        before, way = "these do not follow each other, or what was claimed", "register without gaps=refuse"
    return Gap(
        f"{before}, and the highest that was ever claimed of producer {request.producer} is {claimed}: what lies "
        "between was skipped, or this gateway has lost it. Look for a checkpoint that was deleted, or an older ledger; "
        f"to go on without it, {way}",
        prev_sequence=prev,
        claimed_to=producer.claimed_to,
    )


def out_of_order(sequence: int, producer: ProducerState) -> OutOfOrder:
    return OutOfOrder(
        f"sequence {sequence} of producer {producer.name} was never claimed, and {producer.claimed_to} was: this "
        f"producer is split over tasks, shuffled, or read in another order than before. {_WAYS}",
        sequence=sequence,
        claimed_to=producer.claimed_to,
    )


def too_scattered(producer: ProducerState, intervals: int, most: int) -> Overloaded:
    return Overloaded(
        f"producer {producer.name} would hold {intervals} separate ranges, {most} at most: complete what is written, "
        "and let the driver ack what is done; nothing was written"
    )


def unknown_part(name: str) -> UnknownProducer:
    return UnknownProducer(f"there is no producer {name}; nothing of it was acked", producer=name)


def older_batch(request: AckRequest, newest: int) -> OlderBatch:
    return OlderBatch(
        f"batch {newest} of driver {request.driver} is acked, and {request.batch} lies before it: this is a late copy, "
        "or the checkpoint was set back, and its batches are other ones. Ack under the name of another driver then; "
        "nothing was acked",
        batch=newest,
    )


def not_done(producer: ProducerState, undone: list[list[int]]) -> NotDone:
    """Returns the error for an ack of sequences that are not done; `undone`: the first of their intervals."""
    first, last = undone[0]
    return NotDone(
        f"sequences {first} to {last} of producer {producer.name} were claimed and are not done: they would be "
        "answered STALE for ever, and nobody wrote them. Ack what every task has completed, "
        "or look, and clear it with `oncegate resolve`; nothing of this producer was acked",
        producer=producer.name,
        not_done=undone,
    )


def batch_not_done(driver: str, batch: int, open_claims: OpenClaims) -> NotDone:
    return NotDone(
        f"open claims of batch {batch} of driver {driver} hold {open_claims.ids} ids: they would be answered STALE for "
        "ever, and may not be written. Complete or release them, or look, and clear them: `oncegate resolve`. The next "
        "ack looks again. This batch was not acked",
        batch=batch,
        open_ids=open_claims.ids,
        claims=open_claims.claims[:PLACES_MAX],
    )


def too_many_digests(producer: str, kept: int, kept_max: int) -> TooLarge:
    return TooLarge(
        f"producer {producer} brings payloads, and {kept} of at most {kept_max} are kept of sequences of this "
        "namespace that are not acked: ack them, or write without digest_col; nothing was written"
    )
