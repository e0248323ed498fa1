"""Decides what an operator's import or forgetting does to an id: two tables.

The state of the id is the answer of a look-up (`claims.LOOK_UP`); for an imported id that an owner took elsewhere it is
the answer to that owner (`claims.TAKE`). The tables read no clock and do no I/O. P1, P2 and LOSS are as in `claims`.
"""

from enum import IntEnum

from oncegate.core.cells import Cell
from oncegate.core.claims import Action


class Importing(IntEnum):
    """Names what becomes of the id; a refusal is one of the whole request."""

    NOTHING = 0
    ADD = 1
    REFUSE_HELD = 2
    REFUSE_OTHER = 3


_ADD = Cell(Importing.ADD, "what is known there is known here", "it was written: a retry of it is a duplicate (P1)")
_KNOWN = Cell(Importing.NOTHING, "what is known here stays as it is", "a repeated import changes nothing (P6)")
_HELD = Cell(
    Importing.REFUSE_HELD,
    "an import does not decide over a claim",
    "its holder may be writing now what was written there: somebody has to look (P2)",
)
_OTHER = Cell(
    Importing.REFUSE_OTHER,
    "one id has one owner",
    "the owner's job would be told that its rows are another's, and drop them (LOSS)",
)

# By what is told of the id here, and whether an owner took it there.
IMPORT: dict[tuple[Action, bool], Cell[Importing]] = {
    (Action.FREE, False): _ADD,
    (Action.DUPLICATE, False): _KNOWN,
    (Action.BUSY, False): _HELD,
    (Action.LEFT, False): _HELD,
    (Action.GRANT, True): _ADD,
    (Action.GRANT_AGAIN, True): _KNOWN,
    (Action.DUPLICATE, True): _OTHER,
    (Action.BUSY, True): _HELD,
    (Action.TAKE_OVER, True): _HELD,
    (Action.HOLD, True): _HELD,
    (Action.IN_DOUBT, True): _HELD,
}


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
