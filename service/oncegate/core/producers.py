"""Decision tables for producers and their sequences: the only place that decides about (producer, epoch, sequence).

Rule 1: everything that decides about a sequence is in this file. A claim of sequences ends as `claims.SETTLE` says.
Rule 2: this file reads no clock and does no I/O. Whether a lease has expired is an argument.

Theory of operation
===================

A producer is one ordered partition of a source, e.g. a Kafka partition; a sequence is the number of a record in it. The
numbers rise, so the gateway keeps a few intervals per producer instead of one slot per record.

Registering a producer starts an epoch. An epoch belongs to one token, and a later epoch fences all earlier ones. A
request is first checked against the epoch in force (PRODUCER, DRIVER), then each of its sequences is decided:

  REGISTER_PRODUCER, REGISTER_DRIVER   who may start the next epoch
  SOURCE                               whether the sequences are still those of the recorded source
  PRODUCER, DRIVER                     whether the request's epoch and token are in force
  GAP                                  where a claim is checked for sequences that were skipped
  SEQUENCE                             the action for one sequence, by its state and by the asker
  LEFT_BEHIND                          the cells of SEQUENCE that `lease_expiry` replaces
  ACK                                  the effect of a driver's ack on the watermark

The driver owns the retries of its producers' tasks. Only the driver knows that a sequence will not be retried, so only
it acks. An ack raises the producer's watermark: sequences up to it are STALE for ever, and nothing else is kept about
them. A task cannot ack, since a task that is done may still be run again.

Invariants, in the names of RELIABILITY.md:

  P1    A sequence that is done or stale is never granted again.
  P2    A live lease refuses another registration. Two live attempts would otherwise fence each other for ever.
  P5    One epoch writes at a time. Only a takeover of an older epoch's claim may write a sequence twice.
  P6    The newest registration can finish its work: it takes over what older epochs left, unless `lease_expiry`
        forbids it.
  LOSS  No sequence becomes stale that was claimed and not done. No sequence is granted out of order or after a gap
        that the source cannot have, since rows in between would be missing.

Sources: RIFL (SOSP 2015) for acknowledged work that is answered as stale for ever, KIP-98 and KIP-360 for epochs,
MillWheel (VLDB 2013) for forgetting below the point up to which work can be retried.
"""

from enum import IntEnum

from oncegate.core.cells import Cell
from oncegate.core.claims import LeaseExpiry

# One more would have no successor, and a span ends before its successor.
SEQUENCE_MAX = 2**64 - 2


class Standing(IntEnum):
    """How a request's epoch and token compare with the current ones. ABOVE: an epoch that was never assigned."""

    UNKNOWN = 0
    ABOVE = 1
    BELOW = 2
    OTHER_TOKEN = 3
    OWN = 4


class Entrance(IntEnum):
    """Whether a request of a producer or driver is admitted, and if not, why."""

    GO_ON = 0
    REFUSE_UNKNOWN = 1
    REFUSE_FENCED = 2
    REFUSE_NOT_DRIVER = 3


_REGISTER_FIRST = Cell(
    Entrance.REFUSE_UNKNOWN,
    "register first",
    "an epoch is durable before it is returned, so this one was never assigned",
)
_FENCED = Cell(
    Entrance.REFUSE_FENCED,
    "a later registration has fenced this one",
    "the later one writes what is left; two writers at a time would write it twice (P5)",
)
_CURRENT = Cell(Entrance.GO_ON, "the last registration is served", "one writer per producer, one driver per job")

# Claims, completes and releases: the request against the producer.
PRODUCER: dict[Standing, Cell[Entrance]] = {
    Standing.UNKNOWN: _REGISTER_FIRST,
    Standing.ABOVE: _REGISTER_FIRST,
    Standing.BELOW: _FENCED,
    Standing.OTHER_TOKEN: Cell(
        Entrance.REFUSE_FENCED, "an epoch has one token", "two attempts under one epoch could not be distinguished (P5)"
    ),
    Standing.OWN: _CURRENT,
}

# Acks: the request against the driver.
DRIVER: dict[Standing, Cell[Entrance]] = {
    Standing.UNKNOWN: _REGISTER_FIRST,
    Standing.ABOVE: _REGISTER_FIRST,
    Standing.BELOW: Cell(
        Entrance.REFUSE_FENCED,
        "a later driver has fenced this one",
        "the later one may run again what the earlier one would make the gateway forget (LOSS)",
    ),
    Standing.OTHER_TOKEN: Cell(
        Entrance.REFUSE_NOT_DRIVER,
        "only the driver acks",
        "a finished task may run again: sequences that it acked would then be lost if unwritten (LOSS)",
    ),
    Standing.OWN: _CURRENT,
}


class Registrant(IntEnum):
    """The relation of a registration's caller to the current holder of the name. PAST: its token was already
    superseded."""

    FIRST = 0
    SAME = 1
    PAST = 2
    OTHER_LIVE = 3
    OTHER_OVER = 4


class Registration(IntEnum):
    """The outcome of a registration."""

    NEXT_EPOCH = 0
    SAME_EPOCH = 1
    REFUSE_BUSY = 2
    REFUSE_FENCED = 3


_FIRST = Cell(Registration.NEXT_EPOCH, "the first epoch", "the name has had no holder")
_AGAIN = Cell(Registration.SAME_EPOCH, "the same token has the same epoch", "the reply was lost")
_PAST = Cell(
    Registration.REFUSE_FENCED,
    "a superseded token never returns",
    "a late copy of its registration would fence the live holder (P6)",
)
_NEXT = Cell(Registration.NEXT_EPOCH, "the next epoch", "its holder is dead or done, and is now fenced (P5, P6)")

REGISTER_PRODUCER: dict[Registrant, Cell[Registration]] = {
    Registrant.FIRST: _FIRST,
    Registrant.SAME: _AGAIN,
    Registrant.PAST: _PAST,
    Registrant.OTHER_LIVE: Cell(
        Registration.REFUSE_BUSY,
        "a live lease is respected",
        "two live attempts would fence each other for ever and write everything twice (P2, P5)",
    ),
    Registrant.OTHER_OVER: _NEXT,
}

# A driver has no lease: a new driver starts only after the old one was given up.
REGISTER_DRIVER: dict[Registrant, Cell[Registration]] = {
    Registrant.FIRST: _FIRST,
    Registrant.SAME: _AGAIN,
    Registrant.PAST: _PAST,
    Registrant.OTHER_OVER: Cell(
        Registration.NEXT_EPOCH, "the newest driver wins at once", "acks of the older one are fenced from now on (LOSS)"
    ),
}


class SourceKnown(IntEnum):
    """How the source named by a registration compares with the source recorded for the producer.

    UNNAMED: the registration names none.
    FIRST: none is recorded, e.g. for a producer from before sources were named.
    """

    UNNAMED = 0
    FIRST = 1
    SAME = 2
    OTHER = 3


class SourceNaming(IntEnum):
    """The action for the source that a registration names."""

    GO_ON = 0
    RECORD = 1
    REFUSE_REPLACED = 2


SOURCE: dict[SourceKnown, Cell[SourceNaming]] = {
    SourceKnown.UNNAMED: Cell(
        SourceNaming.GO_ON, "a registration without a source is accepted", "only some sources have an id"
    ),
    SourceKnown.FIRST: Cell(
        SourceNaming.RECORD,
        "the first source that is named is the producer's",
        "sequences written before any source was named count as this source's (P1)",
    ),
    SourceKnown.SAME: Cell(SourceNaming.GO_ON, "the same source continues", "its sequences mean the same"),
    SourceKnown.OTHER: Cell(
        SourceNaming.REFUSE_REPLACED,
        "a source that was created again needs another producer",
        "its sequences start over, and its rows would be dropped as written (LOSS)",
    ),
}


class Gaps(IntEnum):
    """Whether the source may skip sequences, as declared at registration. ALLOW: the source may have holes."""

    ALLOW = 0
    REFUSE = 1


class Look(IntEnum):
    """The places where a claim is checked for a gap.

    PREV: the sequence before its first, which the claim names, must have been claimed.
    EACH: each new sequence must directly follow the previous one; the first must follow the highest ever claimed, if
    any.
    """

    NOWHERE = 0
    PREV = 1
    EACH = 2
    PREV_AND_EACH = 3


# By the producer's registration, and whether the claim names the sequence before its first.
GAP: dict[tuple[Gaps, bool], Cell[Look]] = {
    (Gaps.ALLOW, False): Cell(Look.NOWHERE, "the source may have holes", "a compacted topic has offsets without a row"),
    (Gaps.ALLOW, True): Cell(
        Look.PREV, "the previous sequence must have been claimed", "else rows were skipped, or a ledger was lost (LOSS)"
    ),
    (Gaps.REFUSE, False): Cell(
        Look.EACH, "nothing may be skipped", "the source has no holes, so a missing sequence was skipped or lost (LOSS)"
    ),
    (Gaps.REFUSE, True): Cell(
        Look.PREV_AND_EACH,
        "a claim that names the previous sequence vouches for the gap in between",
        "but not for gaps among its own sequences (LOSS)",
    ),
}


class SequenceState(IntEnum):
    """The state of one sequence of a producer.

    STALE: at or below the watermark.
    ABSENT: above everything that was ever claimed.
    SKIPPED: below that, and never claimed.
    FREE: claimed once and released.
    GIVEN_UP: claimed once; a person declared that it was not done and need not be.
    DONE_OTHER: done with another payload than the request brings, where both are known.
    """

    STALE = 0
    ABSENT = 1
    SKIPPED = 2
    FREE = 3
    CLAIMED = 4
    DONE = 5
    GIVEN_UP = 6
    DONE_OTHER = 7


class ProducerAsker(IntEnum):
    """The relation of a caller in the current epoch to the holder of the sequence.

    SAME_CALL: the very call that holds it.
    SAME_EPOCH: another call of the holder's epoch.
    REPEAT: a call that was decided before; this epoch does not hold the sequence.
    NEWER: a new call; this epoch does not hold the sequence.
    """

    SAME_CALL = 0
    SAME_EPOCH = 1
    REPEAT = 2
    NEWER = 3


class ProducerAction(IntEnum):
    """The action for one sequence of a request."""

    STALE = 0
    GRANT = 1
    GRANT_AGAIN = 2
    TAKE_OVER = 3
    SAME = 4
    BUSY = 5
    DUPLICATE = 6
    OUT_OF_ORDER = 7
    HOLD = 8
    IN_DOUBT = 9
    CONFLICT = 10


# The possible askers: a sequence without a holder cannot distinguish them, and calls of done sequences are not kept.
ASKERS: dict[SequenceState, tuple[ProducerAsker, ...]] = {
    **dict.fromkeys(SequenceState, (ProducerAsker.REPEAT, ProducerAsker.NEWER)),
    SequenceState.CLAIMED: tuple(ProducerAsker),
    SequenceState.DONE: (ProducerAsker.SAME_EPOCH, ProducerAsker.REPEAT, ProducerAsker.NEWER),
    SequenceState.DONE_OTHER: (ProducerAsker.SAME_EPOCH, ProducerAsker.REPEAT, ProducerAsker.NEWER),
}

_STALE = Cell(
    ProducerAction.STALE,
    "an acked sequence is finished for ever",
    "the driver will not run it again, so the caller is late; it was written (P1)",
)
_REPEAT_BUSY = Cell(
    ProducerAction.BUSY,
    "a repeat is granted only what its call holds",
    "a late copy would be granted sequences under a call that its sender has finished, and nobody would write them "
    "(LOSS)",
)
_FRESH = Cell(ProducerAction.GRANT, "nobody has claimed it", "the first caller writes it")
_ORDER = Cell(
    ProducerAction.OUT_OF_ORDER,
    "a sequence that comes after a later one is refused, with the whole request",
    "the producer is split or shuffled: two writers would skip each other's rows (LOSS)",
)
_DUPLICATE = Cell(
    ProducerAction.DUPLICATE, "done is done for every caller", "an acknowledged completion is never granted again (P1)"
)
_CONFLICT = Cell(
    ProducerAction.CONFLICT,
    "a sequence that was done with another payload is not a duplicate",
    "its source reuses its numbers: dropping the record would lose the second payload, writing it would give one "
    "sequence two rows (LOSS, P1)",
)

SEQUENCE: dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]] = {
    (SequenceState.STALE, ProducerAsker.REPEAT): _STALE,
    (SequenceState.STALE, ProducerAsker.NEWER): _STALE,
    (SequenceState.ABSENT, ProducerAsker.REPEAT): _REPEAT_BUSY,
    (SequenceState.ABSENT, ProducerAsker.NEWER): _FRESH,
    (SequenceState.SKIPPED, ProducerAsker.REPEAT): _ORDER,
    (SequenceState.SKIPPED, ProducerAsker.NEWER): _ORDER,
    (SequenceState.FREE, ProducerAsker.REPEAT): _REPEAT_BUSY,
    (SequenceState.FREE, ProducerAsker.NEWER): Cell(
        ProducerAction.GRANT, "a released sequence may be claimed again", "its holder reported it unwritten (P6)"
    ),
    (SequenceState.CLAIMED, ProducerAsker.SAME_CALL): Cell(
        ProducerAction.GRANT_AGAIN,
        "a repeat is granted what its call still holds",
        "the reply was lost; a refusal would block the sequence (P6)",
    ),
    (SequenceState.CLAIMED, ProducerAsker.SAME_EPOCH): Cell(
        ProducerAction.SAME, "another call of this epoch holds it", "a second grant would write it twice (P5)"
    ),
    (SequenceState.CLAIMED, ProducerAsker.REPEAT): _REPEAT_BUSY,
    (SequenceState.CLAIMED, ProducerAsker.NEWER): Cell(
        ProducerAction.TAKE_OVER,
        "a claim of an older epoch is taken over",
        "its holder is fenced and may have written it: counted as a takeover (P5, P6)",
    ),
    (SequenceState.DONE, ProducerAsker.SAME_EPOCH): _DUPLICATE,
    (SequenceState.DONE, ProducerAsker.REPEAT): _DUPLICATE,
    (SequenceState.DONE, ProducerAsker.NEWER): _DUPLICATE,
    (SequenceState.DONE_OTHER, ProducerAsker.SAME_EPOCH): _CONFLICT,
    (SequenceState.DONE_OTHER, ProducerAsker.REPEAT): _CONFLICT,
    (SequenceState.DONE_OTHER, ProducerAsker.NEWER): _CONFLICT,
    (SequenceState.GIVEN_UP, ProducerAsker.REPEAT): _REPEAT_BUSY,
    (SequenceState.GIVEN_UP, ProducerAsker.NEWER): Cell(
        ProducerAction.GRANT, "a sequence that was given up may be claimed again", "a person reported it unwritten (P6)"
    ),
}

# Cells that are replaced in namespaces that forbid takeovers.
LEFT_BEHIND: dict[LeaseExpiry, dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]]] = {
    LeaseExpiry.TAKEOVER: {},
    LeaseExpiry.HOLD: {
        (SequenceState.CLAIMED, ProducerAsker.NEWER): Cell(
            ProducerAction.HOLD,
            "a claim of an older epoch stays (lease_expiry is hold)",
            "it may have been written, and no second write is allowed: others wait for a person (P5 before P6)",
        )
    },
    LeaseExpiry.FAIL: {
        (SequenceState.CLAIMED, ProducerAsker.NEWER): Cell(
            ProducerAction.IN_DOUBT,
            "a claim of an older epoch is in doubt (lease_expiry is fail)",
            "it may have been written, and no second write is allowed: the caller is stopped (P5 before P6)",
        )
    },
}


def sequence_table(expiry: LeaseExpiry) -> dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]]:
    """Returns the effective table of sequences."""
    return {**SEQUENCE, **LEFT_BEHIND[expiry]}


# Marks cells whose asker is impossible.
NO_ACTION = 255


def actions(table: dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]]) -> bytes:
    """Returns a table as bytes, with the `ProducerAction` at `state * len(ProducerAsker) + asker`.

    Raises KeyError if a cell is empty.
    """
    return bytes(
        table[state, asker].effect if asker in ASKERS[state] else NO_ACTION
        for state in SequenceState
        for asker in ProducerAsker
    )


class AckEffect(IntEnum):
    """The effect of a driver's ack of all sequences up to s on the producer's watermark. STOP_BELOW: s is lowered."""

    NOTHING = 0
    STOP_BELOW = 1
    PASS_OVER = 2
    COVER = 3
    REFUSE_NOT_DONE = 4


_NOT_DONE = Cell(
    AckEffect.REFUSE_NOT_DONE,
    "an ack of a producer is refused if it covers a claimed sequence that is not done",
    "the sequence would be stale for ever, and nobody wrote it (LOSS); acks of other producers pass",
)

_COVER = Cell(AckEffect.COVER, "a done sequence becomes stale", "the watermark answers for all that it covers (P1)")

ACK: dict[SequenceState, Cell[AckEffect]] = {
    SequenceState.STALE: Cell(AckEffect.NOTHING, "the watermark never goes back", "a late copy of an older ack"),
    SequenceState.ABSENT: Cell(
        AckEffect.STOP_BELOW,
        "an ack never goes beyond the claimed sequences",
        "sequences still to come would be stale before they were written (LOSS)",
    ),
    SequenceState.SKIPPED: Cell(
        AckEffect.PASS_OVER,
        "a sequence that was never claimed does not block an ack",
        "the driver vouches that every row was written: an offset without a row has none",
    ),
    SequenceState.FREE: _NOT_DONE,
    SequenceState.CLAIMED: _NOT_DONE,
    SequenceState.DONE: _COVER,
    SequenceState.DONE_OTHER: _COVER,
    SequenceState.GIVEN_UP: Cell(
        AckEffect.PASS_OVER,
        "a sequence that was given up does not block an ack",
        "a person has declared that it was not written and need not be",
    ),
}
