"""Decision tables for acks of batches (`scope=retry`), and for ids and sequences that dead tasks left claimed.

Acks of sequences are in `producers`. This file reads no clock and does no I/O.

Theory of operation
===================

With `scope=retry` an id belongs to a batch of a driver and is kept only as long as the driver may retry that batch. The
driver acks a batch number once it will not run that batch, or any earlier one, again. From then on the ids of the acked
batches are answered STALE by their number alone, and the index forgets the ids themselves.

An ack is decided in two steps. ACK_NUMBER compares its batch with the last one that was acked: an older number is
refused as a whole. ACK_BATCH then decides each batch up to that number separately. A batch with an open claim is held
back, reported, and looked at again by each later ack; it does not stop the others.

A leftover is an id or a sequence that a dead task has claimed and neither completed nor released. RESOLVE decides about
the word of a person who has checked whether it was written. The word counts only if no live lease contradicts it; with
`GONE` the person vouches that the holder is dead although its lease is live.

Invariants, in the names of RELIABILITY.md: an id is forgotten only once its batch answers for it (P1). No unwritten id
becomes stale (LOSS). A live lease is never resolved by somebody else (P2). Every leftover can be cleared (P6).
"""

from enum import IntEnum

from oncegate.core.cells import Cell


class BatchOrder(IntEnum):
    """How the batch of an ack compares with the last batch acked under this driver's name."""

    OLDER = 0
    SAME = 1
    NEWER = 2


class BatchNumber(IntEnum):
    """The effect of an ack's batch number."""

    REFUSE_OLDER = 0
    LOOK_AGAIN = 1
    MOVE_ON = 2


ACK_NUMBER: dict[BatchOrder, Cell[BatchNumber]] = {
    BatchOrder.OLDER: Cell(
        BatchNumber.REFUSE_OLDER,
        "an older batch is refused, and the reply names the newer one",
        "the ack is a late copy, or the checkpoint was set back and its batches are different ones (LOSS)",
    ),
    BatchOrder.SAME: Cell(
        BatchNumber.LOOK_AGAIN, "the same batch is examined again", "the reply was lost, or a part was refused"
    ),
    BatchOrder.NEWER: Cell(
        BatchNumber.MOVE_ON, "batch numbers rise", "the driver will not run this batch or an earlier one again"
    ),
}


class BatchState(IntEnum):
    """The state of a batch whose number is not above that of an ack.

    STALE: acked before.
    OPEN: one of its claims holds ids that are neither done nor free.
    SETTLED: none of its claims does.
    """

    STALE = 0
    OPEN = 1
    SETTLED = 2


class BatchEffect(IntEnum):
    """The effect of an ack on one batch. HOLD_BACK: the batch is not acked and is reported; all others are acked."""

    NOTHING = 0
    HOLD_BACK = 1
    FORGET = 2


ACK_BATCH: dict[BatchState, Cell[BatchEffect]] = {
    BatchState.STALE: Cell(BatchEffect.NOTHING, "what is acked stays acked", "its ids are forgotten already"),
    BatchState.OPEN: Cell(
        BatchEffect.HOLD_BACK,
        "a batch with an open claim is held back, and no other batch",
        "its ids would be stale for ever and may be unwritten (LOSS); each later ack examines it again (P6)",
    ),
    BatchState.SETTLED: Cell(
        BatchEffect.FORGET,
        "a batch without open claims is forgotten",
        "its number answers for all its ids (P1)",
    ),
}


class Leftover(IntEnum):
    """The state of a leftover, an id or a sequence that a dead task left claimed, when a person resolves it.

    LIVE: claimed, and its lease is live.
    OVER: claimed, and its lease has expired or its epoch is fenced.
    FREE: released or given up.
    OTHER: done, or never claimed.
    GONE: a claim whose lease is live, while the person knows that its holder is dead.
    """

    LIVE = 0
    OVER = 1
    FREE = 2
    OTHER = 3
    GONE = 4


class LeftoverOutcome(IntEnum):
    """A person's finding about a leftover: whether it was written."""

    DONE = 0
    NOT_DONE = 1


class Resolution(IntEnum):
    """The effect of a person's finding. GIVE_UP: the leftover no longer blocks an ack, and may be claimed until that
    ack."""

    NOTHING = 0
    MARK_DONE = 1
    GIVE_UP = 2
    REFUSE_LIVE = 3


_LIVE = Cell(
    Resolution.REFUSE_LIVE,
    "a live lease is not resolved",
    "its holder may be writing it now; it ends the claim itself, or its lease expires (P2)",
)
_DONE = Cell(Resolution.MARK_DONE, "a person's word counts as a completion", "no running process can know (P6)")
_GIVE_UP = Cell(
    Resolution.GIVE_UP,
    "an unwritten leftover blocks no ack",
    "the person knows that it is not needed; a caller that asks for it before the ack is granted it (P6)",
)
_NO_LEFTOVER = Cell(Resolution.NOTHING, "only leftovers are resolved", "done stays done, whatever the person says (P1)")

RESOLVE: dict[tuple[Leftover, LeftoverOutcome], Cell[Resolution]] = {
    (Leftover.LIVE, LeftoverOutcome.DONE): _LIVE,
    (Leftover.LIVE, LeftoverOutcome.NOT_DONE): _LIVE,
    (Leftover.OVER, LeftoverOutcome.DONE): _DONE,
    (Leftover.OVER, LeftoverOutcome.NOT_DONE): _GIVE_UP,
    (Leftover.FREE, LeftoverOutcome.DONE): _DONE,
    (Leftover.FREE, LeftoverOutcome.NOT_DONE): _GIVE_UP,
    (Leftover.OTHER, LeftoverOutcome.DONE): _NO_LEFTOVER,
    (Leftover.OTHER, LeftoverOutcome.NOT_DONE): _NO_LEFTOVER,
    (Leftover.GONE, LeftoverOutcome.DONE): _DONE,
    (Leftover.GONE, LeftoverOutcome.NOT_DONE): _GIVE_UP,
}
