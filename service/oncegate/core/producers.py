"""What a request about (producer, epoch, sequence) means: a table for each question, the only place that decides.

Rule 1: everything that decides about a sequence stands in this file; a claim of sequences is settled as `SETTLE` says.
Rule 2: this file reads no clock and does no I/O; whether a lease is over is an argument.

Sources: RIFL (SOSP 2015) for what is acked and answered stale for ever, KIP-98 and KIP-360 for epochs,
MillWheel (VLDB 2013) for forgetting behind what can no longer be retried.
P1..P6 and LOSS are the properties of RELIABILITY.md that a cell serves.
"""

from enum import IntEnum

from oncegate.core.cells import Cell
from oncegate.core.claims import LeaseExpiry

# One more would have no successor: a span ends before it.
SEQUENCE_MAX = 2**64 - 2


class Standing(IntEnum):
    """Names how a request's epoch and token stand to those in force. ABOVE: an epoch that was never given."""

    UNKNOWN = 0
    ABOVE = 1
    BELOW = 2
    OTHER_TOKEN = 3
    OWN = 4


class Entrance(IntEnum):
    """Names whether a producer's request is let in, and why not."""

    GO_ON = 0
    REFUSE_UNKNOWN = 1
    REFUSE_FENCED = 2
    REFUSE_NOT_DRIVER = 3


_REGISTER_FIRST = Cell(
    Entrance.REFUSE_UNKNOWN, "register first", "an epoch is durable before it is said, so this one was never given here"
)
_FENCED = Cell(
    Entrance.REFUSE_FENCED,
    "a later registration has fenced this one",
    "whoever registered later writes what is left; two at a time would write it twice (P5)",
)
_CURRENT = Cell(Entrance.GO_ON, "who registered last is answered", "one writer a producer, one driver a job")

# Who claims and settles: the request against the producer.
PRODUCER: dict[Standing, Cell[Entrance]] = {
    Standing.UNKNOWN: _REGISTER_FIRST,
    Standing.ABOVE: _REGISTER_FIRST,
    Standing.BELOW: _FENCED,
    Standing.OTHER_TOKEN: Cell(
        Entrance.REFUSE_FENCED, "an epoch has one token", "two attempts under one epoch could not be told apart (P5)"
    ),
    Standing.OWN: _CURRENT,
}

# Who acks: the request against the driver.
DRIVER: dict[Standing, Cell[Entrance]] = {
    Standing.UNKNOWN: _REGISTER_FIRST,
    Standing.ABOVE: _REGISTER_FIRST,
    Standing.BELOW: Cell(
        Entrance.REFUSE_FENCED,
        "a later driver has fenced this one",
        "the later one may run again what the older would let be forgotten (LOSS)",
    ),
    Standing.OTHER_TOKEN: Cell(
        Entrance.REFUSE_NOT_DRIVER,
        "only the driver acks",
        "a task that is done may be run again: what it acked would be lost if it were not written then (LOSS)",
    ),
    Standing.OWN: _CURRENT,
}


class Registrant(IntEnum):
    """Names who registers, seen from who holds the name. PAST: a token that a later one has followed already."""

    FIRST = 0
    SAME = 1
    PAST = 2
    OTHER_LIVE = 3
    OTHER_OVER = 4


class Registration(IntEnum):
    """Names what a registration leads to."""

    NEXT_EPOCH = 0
    SAME_EPOCH = 1
    REFUSE_BUSY = 2
    REFUSE_FENCED = 3


_FIRST = Cell(Registration.NEXT_EPOCH, "the first epoch", "nobody has held the name before")
_AGAIN = Cell(Registration.SAME_EPOCH, "the same token has the same epoch", "the reply was lost")
_PAST = Cell(
    Registration.REFUSE_FENCED,
    "who was followed stays behind",
    "a late copy of its registration would fence the living (P6)",
)
_NEXT = Cell(Registration.NEXT_EPOCH, "the next epoch", "its holder is dead or done; from now on it is fenced (P5, P6)")

REGISTER_PRODUCER: dict[Registrant, Cell[Registration]] = {
    Registrant.FIRST: _FIRST,
    Registrant.SAME: _AGAIN,
    Registrant.PAST: _PAST,
    Registrant.OTHER_LIVE: Cell(
        Registration.REFUSE_BUSY,
        "a live lease is respected",
        "two twins would fence each other for ever, and each time what was written is written again (P2, P5)",
    ),
    Registrant.OTHER_OVER: _NEXT,
}

# A driver has no lease: a new one starts only when the old one was given up.
REGISTER_DRIVER: dict[Registrant, Cell[Registration]] = {
    Registrant.FIRST: _FIRST,
    Registrant.SAME: _AGAIN,
    Registrant.PAST: _PAST,
    Registrant.OTHER_OVER: Cell(
        Registration.NEXT_EPOCH, "the newest driver wins at once", "from now on the older one's acks are fenced (LOSS)"
    ),
}


class SourceKnown(IntEnum):
    """Names how the source that a registration brings stands to the one that is recorded of the producer.

    UNNAMED: it brings none. FIRST: none is recorded, as of producers from before sources were named.
    """

    UNNAMED = 0
    FIRST = 1
    SAME = 2
    OTHER = 3


class SourceNaming(IntEnum):
    """Names what becomes of the source that a registration brings."""

    GO_ON = 0
    RECORD = 1
    REFUSE_REPLACED = 2


SOURCE: dict[SourceKnown, Cell[SourceNaming]] = {
    SourceKnown.UNNAMED: Cell(
        SourceNaming.GO_ON, "who names no source is not asked for one", "only some sources have an id"
    ),
    SourceKnown.FIRST: Cell(
        SourceNaming.RECORD,
        "the first source that is named is the producer's",
        "what was written before anybody named one counts as this source's (P1)",
    ),
    SourceKnown.SAME: Cell(SourceNaming.GO_ON, "the same source goes on", "its sequences are what they were"),
    SourceKnown.OTHER: Cell(
        SourceNaming.REFUSE_REPLACED,
        "a source that was made again is another producer's",
        "its sequences begin again, and its rows would be dropped as written (LOSS)",
    ),
}


class Gaps(IntEnum):
    """Names what a registration says about sequences that are passed over. ALLOW: its source may have holes."""

    ALLOW = 0
    REFUSE = 1


class Look(IntEnum):
    """Names where a claim is looked at for a gap.

    PREV: the one before its first, as it names it, was claimed. EACH: each that is new follows the one before it, the
    first of them the highest ever claimed, if there is one.
    """

    NOWHERE = 0
    PREV = 1
    EACH = 2
    PREV_AND_EACH = 3


# By what the producer was registered with, and whether the claim names the sequence before its first.
GAP: dict[tuple[Gaps, bool], Cell[Look]] = {
    (Gaps.ALLOW, False): Cell(Look.NOWHERE, "holes are the source's", "a compacted topic has offsets without a row"),
    (Gaps.ALLOW, True): Cell(
        Look.PREV, "the one before must have been claimed", "else rows were skipped, or a ledger was lost (LOSS)"
    ),
    (Gaps.REFUSE, False): Cell(
        Look.EACH, "nothing is passed over", "its source has no holes, so what is missing was skipped or lost (LOSS)"
    ),
    (Gaps.REFUSE, True): Cell(
        Look.PREV_AND_EACH,
        "who names the one before vouches for what lies between",
        "but for nothing among the sequences themselves (LOSS)",
    ),
}


class SequenceState(IntEnum):
    """Names what is known about one sequence of a producer.

    STALE: at or below the watermark. ABSENT: above all that was ever claimed. SKIPPED: below that, and never claimed.
    FREE: claimed once, and released. GIVEN_UP: claimed once, and a person said that it was not done, nor need be.
    DONE_OTHER: done with another payload than it comes with, where both are known.
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
    """Names who asks, of the epoch in force, seen from the sequence's holder.

    SAME_CALL: the very call that holds it. SAME_EPOCH: another call of the holder's epoch. REPEAT: a call that was
    decided before, where nobody of this epoch is the holder. NEWER: a new call, where nobody of this epoch is.
    """

    SAME_CALL = 0
    SAME_EPOCH = 1
    REPEAT = 2
    NEWER = 3


class ProducerAction(IntEnum):
    """Names what is done with one sequence of a request."""

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


# Who can ask: what holds nothing has no holder to tell askers by, and calls of what is done are not kept.
ASKERS: dict[SequenceState, tuple[ProducerAsker, ...]] = {
    **dict.fromkeys(SequenceState, (ProducerAsker.REPEAT, ProducerAsker.NEWER)),
    SequenceState.CLAIMED: tuple(ProducerAsker),
    SequenceState.DONE: (ProducerAsker.SAME_EPOCH, ProducerAsker.REPEAT, ProducerAsker.NEWER),
    SequenceState.DONE_OTHER: (ProducerAsker.SAME_EPOCH, ProducerAsker.REPEAT, ProducerAsker.NEWER),
}

_STALE = Cell(
    ProducerAction.STALE,
    "what was acked is settled for ever",
    "the driver will not run it again, so whoever asks is late; it was written (P1)",
)
_REPEAT_BUSY = Cell(
    ProducerAction.BUSY,
    "a repeat grants nothing that its call does not hold",
    "a late copy would grant under a call that its sender has done with, and nobody would write it (LOSS)",
)
_FRESH = Cell(ProducerAction.GRANT, "nobody has claimed it", "the first to ask writes it")
_ORDER = Cell(
    ProducerAction.OUT_OF_ORDER,
    "what comes after a later one is refused, with the whole request",
    "the producer is split or shuffled: two writers would pass over each other's rows (LOSS)",
)
_DUPLICATE = Cell(
    ProducerAction.DUPLICATE, "done is done for everyone", "an acknowledged completion is never granted again (P1)"
)
_CONFLICT = Cell(
    ProducerAction.CONFLICT,
    "a sequence that was done with another payload is no duplicate",
    "its source numbers its records anew: dropping it would lose the second payload, writing it would make two of one "
    "sequence (LOSS, P1)",
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
        ProducerAction.GRANT, "what was released may be claimed again", "its holder said that it was not written (P6)"
    ),
    (SequenceState.CLAIMED, ProducerAsker.SAME_CALL): Cell(
        ProducerAction.GRANT_AGAIN,
        "a repeat is granted what its call still holds",
        "the reply was lost; refusing would leave the sequence to nobody (P6)",
    ),
    (SequenceState.CLAIMED, ProducerAsker.SAME_EPOCH): Cell(
        ProducerAction.SAME, "another call of this epoch holds it", "granting it twice would write it twice (P5)"
    ),
    (SequenceState.CLAIMED, ProducerAsker.REPEAT): _REPEAT_BUSY,
    (SequenceState.CLAIMED, ProducerAsker.NEWER): Cell(
        ProducerAction.TAKE_OVER,
        "what an older epoch left is taken over",
        "its holder is fenced, and may have written it: counted as a takeover (P5, P6)",
    ),
    (SequenceState.DONE, ProducerAsker.SAME_EPOCH): _DUPLICATE,
    (SequenceState.DONE, ProducerAsker.REPEAT): _DUPLICATE,
    (SequenceState.DONE, ProducerAsker.NEWER): _DUPLICATE,
    (SequenceState.DONE_OTHER, ProducerAsker.SAME_EPOCH): _CONFLICT,
    (SequenceState.DONE_OTHER, ProducerAsker.REPEAT): _CONFLICT,
    (SequenceState.DONE_OTHER, ProducerAsker.NEWER): _CONFLICT,
    (SequenceState.GIVEN_UP, ProducerAsker.REPEAT): _REPEAT_BUSY,
    (SequenceState.GIVEN_UP, ProducerAsker.NEWER): Cell(
        ProducerAction.GRANT, "what was given up may be claimed again", "a person said that it was not written (P6)"
    ),
}

# What takes the place of a cell where a namespace lets nobody take over what a holder left.
LEFT_BEHIND: dict[LeaseExpiry, dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]]] = {
    LeaseExpiry.TAKEOVER: {},
    LeaseExpiry.HOLD: {
        (SequenceState.CLAIMED, ProducerAsker.NEWER): Cell(
            ProducerAction.HOLD,
            "what an older epoch left stays left (lease_expiry is hold)",
            "it may have been written, and nobody is to write it twice: others wait for a person (P5 before P6)",
        )
    },
    LeaseExpiry.FAIL: {
        (SequenceState.CLAIMED, ProducerAsker.NEWER): Cell(
            ProducerAction.IN_DOUBT,
            "what an older epoch left is in doubt (lease_expiry is fail)",
            "it may have been written, and nobody is to write it twice: whoever asks is stopped (P5 before P6)",
        )
    },
}


def sequence_table(expiry: LeaseExpiry) -> dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]]:
    """Returns the table of sequences that is in force."""
    return {**SEQUENCE, **LEFT_BEHIND[expiry]}


# What no asker can be is no action.
NO_ACTION = 255


def actions(table: dict[tuple[SequenceState, ProducerAsker], Cell[ProducerAction]]) -> bytes:
    """Returns a table as bytes, `ProducerAction` at `state * len(Asker) + asker`; KeyError when a cell is empty."""
    return bytes(
        table[state, asker].effect if asker in ASKERS[state] else NO_ACTION
        for state in SequenceState
        for asker in ProducerAsker
    )


class AckEffect(IntEnum):
    """Names what becomes of the watermark when a driver acks every sequence up to s. STOP_BELOW: s is cut to less."""

    NOTHING = 0
    STOP_BELOW = 1
    PASS_OVER = 2
    COVER = 3
    REFUSE_NOT_DONE = 4


_NOT_DONE = Cell(
    AckEffect.REFUSE_NOT_DONE,
    "nothing of a producer is acked over what was claimed and is not done",
    "it would be answered stale for ever, and nobody wrote it (LOSS); other producers' acks pass",
)

_COVER = Cell(AckEffect.COVER, "what is done is stale from now on", "a watermark answers for all that it forgets (P1)")

ACK: dict[SequenceState, Cell[AckEffect]] = {
    SequenceState.STALE: Cell(AckEffect.NOTHING, "the watermark never goes back", "a late copy of an older ack"),
    SequenceState.ABSENT: Cell(
        AckEffect.STOP_BELOW,
        "never beyond what was claimed",
        "what is still to come would be stale before it was written (LOSS)",
    ),
    SequenceState.SKIPPED: Cell(
        AckEffect.PASS_OVER,
        "what was never claimed does not hold it up",
        "the driver says that all of this was written: offsets that hold no row are none of it",
    ),
    SequenceState.FREE: _NOT_DONE,
    SequenceState.CLAIMED: _NOT_DONE,
    SequenceState.DONE: _COVER,
    SequenceState.DONE_OTHER: _COVER,
    SequenceState.GIVEN_UP: Cell(
        AckEffect.PASS_OVER,
        "what was given up does not hold it up",
        "a person has looked, and said that it was not written and need not be",
    ),
}
