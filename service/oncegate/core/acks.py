"""What an ack means to batches (`scope = retry`), and what clears a leftover: tables. `producers` has sequences.

An ack has parts: each producer that it names is one, each batch up to its own is one. A part that is refused keeps none
of the others from passing. This file reads no clock and does no I/O. P1..P6 and LOSS are as in `producers`.
"""

from enum import IntEnum

from oncegate.core.cells import Cell


class BatchOrder(IntEnum):
    """Names how the batch of an ack stands to the last that was acked under this driver's name."""

    OLDER = 0
    SAME = 1
    NEWER = 2


class BatchNumber(IntEnum):
    """Names what becomes of an ack by its batch."""

    REFUSE_OLDER = 0
    LOOK_AGAIN = 1
    MOVE_ON = 2


ACK_NUMBER: dict[BatchOrder, Cell[BatchNumber]] = {
    BatchOrder.OLDER: Cell(
        BatchNumber.REFUSE_OLDER,
        "an older batch is refused, and told the newer one",
        "as an older epoch is: a late copy, or a checkpoint that was set back, whose batches are other ones (LOSS)",
    ),
    BatchOrder.SAME: Cell(
        BatchNumber.LOOK_AGAIN, "the same batch is looked at again", "the reply was lost, or a part was refused"
    ),
    BatchOrder.NEWER: Cell(
        BatchNumber.MOVE_ON, "batches count up", "the driver will not run them again, nor any before"
    ),
}


class BatchState(IntEnum):
    """Names what is known about one batch up to that of an ack.

    STALE: acked before. OPEN: a claim of it holds ids that are neither done nor free. SETTLED: none does.
    """

    STALE = 0
    OPEN = 1
    SETTLED = 2


class BatchEffect(IntEnum):
    """Names what becomes of one batch. HOLD_BACK: it is not acked, and told; all others are."""

    NOTHING = 0
    HOLD_BACK = 1
    FORGET = 2


ACK_BATCH: dict[BatchState, Cell[BatchEffect]] = {
    BatchState.STALE: Cell(BatchEffect.NOTHING, "what is acked stays acked", "its ids are forgotten already"),
    BatchState.OPEN: Cell(
        BatchEffect.HOLD_BACK,
        "a batch with an open claim is held back, and it alone",
        "its ids would be stale for ever, and may not be written (LOSS); each later ack looks at it again (P6)",
    ),
    BatchState.SETTLED: Cell(
        BatchEffect.FORGET, "what is settled is forgotten with its batch", "the batch answers for all of it (P1)"
    ),
}


class Leftover(IntEnum):
    """Names what a person finds who clears what a dead task has left.

    LIVE: claimed, and its lease runs. OVER: claimed, and its lease or its epoch is over. FREE: released, or given up.
    OTHER: done, or never claimed. GONE: of a claim, its lease runs, and the person knows that its holder is dead.
    """

    LIVE = 0
    OVER = 1
    FREE = 2
    OTHER = 3
    GONE = 4


class LeftoverOutcome(IntEnum):
    """Names what a person has found out about it."""

    DONE = 0
    NOT_DONE = 1


class Resolution(IntEnum):
    """Names what becomes of it then. GIVE_UP: it holds up no ack any more, and may be claimed until then."""

    NOTHING = 0
    MARK_DONE = 1
    GIVE_UP = 2
    REFUSE_LIVE = 3


_LIVE = Cell(
    Resolution.REFUSE_LIVE,
    "nobody decides over a live lease",
    "its holder may be writing it now; it settles it itself, or its lease runs out (P2)",
)
_DONE = Cell(Resolution.MARK_DONE, "a person's word counts as a completion", "nobody else is left who could know (P6)")
_GIVE_UP = Cell(
    Resolution.GIVE_UP,
    "what was not done holds up no ack",
    "whoever looked knows that nobody needs it; who asks for it before the ack is granted it (P6)",
)
_NO_LEFTOVER = Cell(Resolution.NOTHING, "only leftovers are cleared", "done is done, whoever says otherwise (P1)")

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
