"""The verdicts: one table, from which the HTTP codecs, the client's copy and the documents derive.

A verdict is given per id, in the order asked, in a 200: a duplicate is a success.
On the wire a verdict is one byte: the low four bits say which, the high bits qualify it. 0 is never
sent, so that a buffer nobody filled in cannot be read as an answer.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag


class Verdict(IntEnum):
    """Names what a caller is told of one id or sequence; the low four bits of its byte."""

    GRANTED = 1
    DUPLICATE = 2
    SAME = 3
    BUSY = 4
    STALE = 5
    CONFLICT = 6
    FREE = 7
    IN_DOUBT = 8


class Flag(IntFlag):
    """Marks what else a verdict's byte tells; the high four bits."""

    TAKEOVER = 0x10
    OWN = 0x20
    OF_CALL = 0x40
    UNCHECKED = 0x80


VERDICT_MASK = 0x0F


@dataclass(frozen=True)
class VerdictRow:
    """Holds a verdict with its flags; `number` names the field that an exception record carries beside the byte, if
    any."""

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
        "as GRANTED; an earlier holder's lease ran out, so it may have written this id too",
    ),
    VerdictRow(
        Verdict.GRANTED,
        Flag.UNCHECKED,
        True,
        None,
        "the ledger is down and nobody looked: it may be written, held, or granted to others as well; nothing is held "
        "for you, and settling it says nothing (`on_ledger_down` is pass_marked)",
    ),
    VerdictRow(Verdict.DUPLICATE, Flag(0), False, None, "it was written; drop it"),
    VerdictRow(Verdict.DUPLICATE, Flag.OWN, False, None, "this very attempt wrote it; drop it, it is not counted"),
    VerdictRow(
        Verdict.SAME,
        Flag(0),
        False,
        "of_index",
        "the same id stands earlier in this request; it shares its fate",
    ),
    VerdictRow(
        Verdict.SAME,
        Flag.OF_CALL,
        False,
        "of_call",
        "this attempt holds it under an earlier call; it shares that claim's fate",
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
        "it was acked, or its batch was: settled for ever, whatever it was; or by the time that it carries it is older "
        "than what is still known; drop it",
    ),
    VerdictRow(
        Verdict.CONFLICT,
        Flag(0),
        False,
        None,
        "it was written, or stands earlier in this request, with another payload: neither write it nor take it for "
        "written; find out which one is right",
    ),
    VerdictRow(
        Verdict.FREE,
        Flag(0),
        False,
        None,
        "of a look-up: nobody wrote or holds it; it was not granted, so claim or produce it before you write",
    ),
    VerdictRow(
        Verdict.FREE,
        Flag.TAKEOVER,
        False,
        None,
        "as FREE; but an earlier holder's lease ran out, so it may have been written",
    ),
    VerdictRow(
        Verdict.IN_DOUBT,
        Flag(0),
        False,
        None,
        "its holder's lease ran out and it may have written it, and the namespace grants nobody what is in doubt "
        "(`lease_expiry` is fail): neither write nor drop it; a person finds out and resolves the claim",
    ),
)

BY_BYTE: dict[int, VerdictRow] = {int(row.verdict) | int(row.flags): row for row in VERDICTS}
