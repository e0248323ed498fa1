"""What becomes of an id that an operator asks to forget: one table.

It is asked by what looking the id up tells (`claims.LOOK_UP`). This file reads no clock and does no I/O. P1, P2 and
LOSS are as in `claims`.
"""

from enum import IntEnum

from oncegate.core.cells import Cell
from oncegate.core.claims import Action


class Forgetting(IntEnum):
    """Names what becomes of the id; a refusal is one of the whole request."""

    NOTHING = 0
    FORGET = 1
    REFUSE_LIVE = 2
    REFUSE_LEFT = 3


FORGET: dict[Action, Cell[Forgetting]] = {
    Action.FREE: Cell(Forgetting.NOTHING, "what is not known is not forgotten", "a repeat finds it so (P6)"),
    Action.DUPLICATE: Cell(
        Forgetting.FORGET,
        "an operator's word gives up a promise",
        "whoever asks knows that its row is to be written again; the ledger says who that was, and why",
    ),
    Action.BUSY: Cell(
        Forgetting.REFUSE_LIVE,
        "a live lease is respected",
        "its holder may be writing it now, and would complete what somebody else was granted (P2)",
    ),
    Action.LEFT: Cell(
        Forgetting.REFUSE_LEFT,
        "a leftover is resolved, not forgotten",
        "whether it is written has to be looked up first; forgotten, nobody would be asked to (LOSS)",
    ),
}
