"""Defines the verdicts: one table from which the HTTP codecs, the client's copy and the documentation derive.

A verdict is given per id, in the order asked, in a 200: a duplicate is a success. On the wire a verdict is one byte.
The low four bits identify the verdict, the high four bits qualify it. 0 is never sent, so an uninitialised buffer is
not a valid answer.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag


class Verdict(IntEnum):
    """The answer for one id or sequence; the low four bits of its byte."""

    GRANTED = 1
    DUPLICATE = 2
    SAME = 3
    BUSY = 4
    STALE = 5
    CONFLICT = 6
    FREE = 7
    IN_DOUBT = 8


class Flag(IntFlag):
    """A qualifier of a verdict; the high four bits of its byte."""

    TAKEOVER = 0x10
    OWN = 0x20
    OF_CALL = 0x40
    UNCHECKED = 0x80


VERDICT_MASK = 0x0F


@dataclass(frozen=True)
class VerdictRow:
    """A verdict with its flags. number: name of the field in the exception record that accompanies the byte, if any."""

    verdict: Verdict
    flags: Flag
    may_write: bool
    number: str | None
    meaning: str


VERDICTS: tuple[VerdictRow, ...] = (
    VerdictRow(Verdict.GRANTED, Flag(0), True, None, "write it, then complete the claim"),
    VerdictRow(
        Verdict.GRANTED,
        Flag.TAKEOVER,
        True,
        None,
        "as GRANTED; an earlier holder's lease expired, so that holder may have written this id too",
    ),
    VerdictRow(
        Verdict.GRANTED,
        Flag.UNCHECKED,
        True,
        None,
        "the ledger is down and the id was not checked: it may be written, held, or granted to others as well; nothing "
        "is held for you, and complete and release have no effect (`on_ledger_down` is pass_marked)",
    ),
    VerdictRow(Verdict.DUPLICATE, Flag(0), False, None, "it was written; drop it"),
    VerdictRow(Verdict.DUPLICATE, Flag.OWN, False, None, "this very attempt wrote it; drop it, it is not counted"),
    VerdictRow(
        Verdict.SAME,
        Flag(0),
        False,
        "of_index",
        "the same id occurs earlier in this request; do nothing with this row, it shares the earlier one's fate",
    ),
    VerdictRow(
        Verdict.SAME,
        Flag.OF_CALL,
        False,
        "of_call",
        "this attempt holds it under an earlier call; do nothing with this row, it shares that claim's fate",
    ),
    VerdictRow(
        Verdict.BUSY,
        Flag(0),
        False,
        "lease_left_ms",
        "another attempt may be writing it: neither write nor drop it, ask again in a new call",
    ),
    VerdictRow(
        Verdict.STALE,
        Flag(0),
        False,
        None,
        "it or its batch was acked: permanently finished, whether or not it was written; or its own time is older than "
        "everything that is still known; drop it",
    ),
    VerdictRow(
        Verdict.CONFLICT,
        Flag(0),
        False,
        None,
        "it was written, or occurs earlier in this request, with another payload: neither write it nor treat it as "
        "written; find out which one is right",
    ),
    VerdictRow(
        Verdict.FREE,
        Flag(0),
        False,
        None,
        "look-up only: nobody wrote or holds it; it was not granted, so claim or produce it before you write",
    ),
    VerdictRow(
        Verdict.FREE,
        Flag.TAKEOVER,
        False,
        None,
        "as FREE; but an earlier holder's lease expired, so it may have been written",
    ),
    VerdictRow(
        Verdict.IN_DOUBT,
        Flag(0),
        False,
        None,
        "its holder's lease expired and the holder may have written it, but the namespace allows no takeover "
        "(`lease_expiry` is fail): neither write nor drop it; a person checks and resolves the claim",
    ),
)

BY_BYTE: dict[int, VerdictRow] = {int(row.verdict) | int(row.flags): row for row in VERDICTS}
