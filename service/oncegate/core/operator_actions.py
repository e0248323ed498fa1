"""Decision tables for an operator's import and forgetting of ids.

An operator may add ids that were written elsewhere (IMPORT) and remove ids whose rows are to be written again (FORGET).
Both act on ids that are at rest. An id under a claim, live or expired, refuses the whole request, since its holder may
be writing it.

The state of an id is the answer of a look-up (`claims.LOOK_UP`). For an imported id that an owner took elsewhere, it is
the answer to that owner's take (`claims.TAKE`). Repeating either request changes nothing (P6). The tables read no clock
and do no I/O. P1, P2 and LOSS are as in `claims`.
"""

from enum import IntEnum

from oncegate.core.cells import Cell
from oncegate.core.claims import Action


class Importing(IntEnum):
    """The effect of an import on one id; a refusal applies to the whole request."""

    NOTHING = 0
    ADD = 1
    REFUSE_HELD = 2
    REFUSE_OTHER = 3


_ADD = Cell(Importing.ADD, "an id known there is known here", "it was written: a retry of it is a duplicate (P1)")
_KNOWN = Cell(Importing.NOTHING, "an id known here is left as it is", "a repeated import changes nothing (P6)")
_HELD = Cell(
    Importing.REFUSE_HELD,
    "an import does not override a claim",
    "its holder may be writing an id that was already written there: a person has to check (P2)",
)
_OTHER = Cell(
    Importing.REFUSE_OTHER,
    "an id has one owner",
    "the owner's job would learn that its rows belong to another, and drop them (LOSS)",
)

# By the answer for the id here, and whether an owner took it there.
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
    """The effect of a forget request on one id; a refusal applies to the whole request."""

    NOTHING = 0
    FORGET = 1
    REFUSE_LIVE = 2
    REFUSE_LEFT = 3


FORGET: dict[Action, Cell[Forgetting]] = {
    Action.FREE: Cell(Forgetting.NOTHING, "an unknown id cannot be forgotten", "a repeat finds it unknown (P6)"),
    Action.DUPLICATE: Cell(
        Forgetting.FORGET,
        "an operator may give up the promise for an id",
        "the operator knows that its row will be written again; the ledger records who asked, and why",
    ),
    Action.BUSY: Cell(
        Forgetting.REFUSE_LIVE,
        "a live lease is respected",
        "its holder may be writing it now, and would complete an id that another caller was granted (P2)",
    ),
    Action.LEFT: Cell(
        Forgetting.REFUSE_LEFT,
        "a leftover is resolved, not forgotten",
        "whether it was written has to be checked first; once forgotten, nothing would demand that check (LOSS)",
    ),
}
