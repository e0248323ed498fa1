"""What becomes of an id when input, ledger and output are compared, and what each finding means."""

from enum import IntEnum

import numpy as np

from oncegate.arraytypes import U8
from oncegate.core.verdicts import VERDICT_MASK, Flag, Verdict


class Standing(IntEnum):
    """Names what the ledger told of an id, in two bits of its place. HELD: a claim is open, its lease over or not."""

    FREE = 0
    HELD = 1
    KNOWN = 2


class FindingKind(IntEnum):
    """Names what an id of the input is; FOREIGN is one that only the output has."""

    OK = 0
    MISSING = 1
    NOT_WRITTEN = 2
    DOUBLED = 3
    HELD = 4
    UNRECORDED = 5
    FOREIGN = 6


MEANINGS = {
    FindingKind.OK: "in the input, known to the ledger, and in the output once",
    FindingKind.MISSING: "the ledger knows it as written, and the output lacks it",
    FindingKind.NOT_WRITTEN: "the input has it, neither the ledger nor the output does",
    FindingKind.DOUBLED: "in the output more than once",
    FindingKind.HELD: "the output lacks it, and a claim of it is open or was left: ask again",
    FindingKind.UNRECORDED: "in the output once, and not known as written: a retry would write it again",
    FindingKind.FOREIGN: "in the output, and not in the input",
}


def told_of(verdicts: U8) -> U8:
    """Returns `Standing` for each verdict of a look-up; where an id stands there again (SAME) its first says it."""
    standings = np.full(len(verdicts), Standing.FREE, np.uint8)
    standings[verdicts & VERDICT_MASK == Verdict.DUPLICATE] = Standing.KNOWN
    standings[(verdicts & VERDICT_MASK == Verdict.BUSY) | (verdicts & Flag.TAKEOVER != 0)] = Standing.HELD
    return standings
