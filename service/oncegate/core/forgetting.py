"""What becomes of an id that an operator asks to forget: one table.

It is asked by what looking the id up tells (`claims.LOOK_UP`). This file reads no clock and does no I/O. P1, P2 and
LOSS are as in `claims`.
"""

from dataclasses import dataclass
from enum import IntEnum

from oncegate.core.claims import Action


class Forgetting(IntEnum):
    """Names what becomes of the id; a refusal is one of the whole request."""

    NOTHING = 0
    FORGET = 1
    REFUSE_LIVE = 2
    REFUSE_LEFT = 3


@dataclass(frozen=True)
class ForgetCell:
    """Holds one cell of the table of forgetting: the effect, its rule and the reason for it."""

    effect: Forgetting
    rule: str
    reason: str


FORGET: dict[Action, ForgetCell] = {
    Action.FREE: ForgetCell(Forgetting.NOTHING, "what is not known is not forgotten", "a repeat finds it so (P6)"),
    Action.DUPLICATE: ForgetCell(
        Forgetting.FORGET,
        "an operator's word gives up a promise",
        "whoever asks knows that its row is to be written again; the ledger says who that was, and why",
    ),
    Action.BUSY: ForgetCell(
        Forgetting.REFUSE_LIVE,
        "a live lease is respected",
        "its holder may be writing it now, and would complete what somebody else was granted (P2)",
    ),
    Action.LEFT: ForgetCell(
        Forgetting.REFUSE_LEFT,
        "a leftover is resolved, not forgotten",
        "whether it is written has to be looked up first; forgotten, nobody would be asked to (LOSS)",
    ),
}
