"""What becomes of an id that another ledger knows, by what is known of it here: one table.

It is asked by what looking the id up tells (`claims.LOOK_UP`), or, of one that an owner took there, by what that owner
would be told (`claims.TAKE`). This file reads no clock and does no I/O. P1, P2 and LOSS are as in `claims`.
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
