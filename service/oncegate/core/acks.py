"""What an ack means to batches (`scope = retry`): a table for each question. `producers` has sequences.

An ack has parts: each producer that it names is one, each batch up to its own is one. A part that is refused keeps none
of the others from passing. This file reads no clock and does no I/O. P1..P6 and LOSS are as in `producers`.
"""

from dataclasses import dataclass
from enum import IntEnum


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


@dataclass(frozen=True)
class BatchNumberCell:
    """Holds one cell of the table of batch numbers: the effect, its rule and the reason for it."""

    effect: BatchNumber
    rule: str
    reason: str


ACK_NUMBER: dict[BatchOrder, BatchNumberCell] = {
    BatchOrder.OLDER: BatchNumberCell(
        BatchNumber.REFUSE_OLDER,
        "an older batch is refused, and told the newer one",
        "as an older epoch is: a late copy, or a checkpoint that was set back, whose batches are other ones (LOSS)",
    ),
    BatchOrder.SAME: BatchNumberCell(
        BatchNumber.LOOK_AGAIN, "the same batch is looked at again", "the reply was lost, or a part was refused"
    ),
    BatchOrder.NEWER: BatchNumberCell(
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


@dataclass(frozen=True)
class BatchCell:
    """Holds one cell of the table of acked batches: the effect, its rule and the reason for it."""

    effect: BatchEffect
    rule: str
    reason: str


ACK_BATCH: dict[BatchState, BatchCell] = {
    BatchState.STALE: BatchCell(BatchEffect.NOTHING, "what is acked stays acked", "its ids are forgotten already"),
    BatchState.OPEN: BatchCell(
        BatchEffect.HOLD_BACK,
        "a batch with an open claim is held back, and it alone",
        "its ids would be stale for ever, and may not be written (LOSS); each later ack looks at it again (P6)",
    ),
    BatchState.SETTLED: BatchCell(
        BatchEffect.FORGET, "what is settled is forgotten with its batch", "the batch answers for all of it (P1)"
    ),
}
