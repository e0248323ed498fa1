"""Defines the results of comparing input, ledger and output for an id, and the meaning of each."""

from enum import IntEnum

import numpy as np

from oncegate.arraytypes import U8
from oncegate.core.verdicts import VERDICT_MASK, Flag, Verdict


class Standing(IntEnum):
    """The ledger's answer for an id, in two bits of its row code. HELD: a claim is open, its lease live or expired."""

    FREE = 0
    HELD = 1
    KNOWN = 2


class FindingKind(IntEnum):
    """The result for an id of the input; FOREIGN is an id that only the output has."""

    OK = 0
    MISSING = 1
    NOT_WRITTEN = 2
    DOUBLED = 3
    HELD = 4
    UNRECORDED = 5
    FOREIGN = 6


MEANINGS = {
    FindingKind.OK: "in the input, known to the ledger, and in the output once",
    FindingKind.MISSING: "known to the ledger as written, but not in the output",
    FindingKind.NOT_WRITTEN: "in the input, but neither known to the ledger nor in the output",
    FindingKind.DOUBLED: "in the output more than once",
    FindingKind.HELD: "not in the output, and its claim is open or was left: verify again later",
    FindingKind.UNRECORDED: "in the output once, but not known as written: a retry would write it again",
    FindingKind.FOREIGN: "in the output, but not in the input",
}


def told_of(verdicts: U8) -> U8:
    """Returns the `Standing` for each verdict of a look-up; for a repeated id (SAME) only the first verdict has it."""
    standings = np.full(len(verdicts), Standing.FREE, np.uint8)
    standings[verdicts & VERDICT_MASK == Verdict.DUPLICATE] = Standing.KNOWN
    standings[(verdicts & VERDICT_MASK == Verdict.BUSY) | (verdicts & Flag.TAKEOVER != 0)] = Standing.HELD
    return standings
