"""Gathers what the comparisons of all buckets find, and reports it to a person, a program or a picture.

Each row of the input has a byte on disk: its kind, by what input, ledger and output have of its id. The first rows of
each kind are listed.
"""

from enum import IntEnum
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from oncegate.arraytypes import I64, U8, U64
from oncegate.core.verdicts import VERDICT_MASK, Flag, Verdict
from oncegate.verifier.compare import Compared


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


class RowLocation(msgspec.Struct, frozen=True):
    """Says where a row of the output lies."""

    partition: int
    offset: int


class IdFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names one id: `row` of the input, from 0, where it is there; `places` in the output, as far as they are kept."""

    id: str | list[str]
    row: int | None = None
    places: list[RowLocation] = []


class VerifyReport(msgspec.Struct, frozen=True):
    """Holds counts of ids by kind, and the first findings of each kind that is not OK.

    ok: nothing is to be done. input_rows, of them `repeated` whose id stood there before; output_rows, of them
    `without_id`, `doubled_rows` beyond the first of their id, and `foreign_rows`. trimmed: partitions that begin
    behind 0, with their first offset: what was before is gone, and counts as missing. repaired: None: not asked for.
    """

    ok: bool
    ids: dict[str, int]
    input_rows: int
    repeated: int
    output_rows: int
    without_id: int
    doubled_rows: int
    foreign_rows: int
    trimmed: dict[str, int]
    findings: dict[str, list[IdFinding]]
    repaired: dict[str, int] | None = None

    @property
    def lines(self) -> list[tuple[str, int, str]]:
        """Returns for each kind its name, how many ids there are, and what it means."""
        return [(kind.name.lower(), self.ids[kind.name.lower()], MEANINGS[kind]) for kind in FindingKind]


def as_json(report: VerifyReport) -> str:
    """Writes a report as one JSON object."""
    members: Any = msgspec.to_builtins(report)
    return msgspec.json.encode(members).decode()


# Rows of the input whose kinds are looked at, at once.
_CHUNK = 1 << 22
_NO_PAIRS: U64 = np.empty((0, 2), np.uint64)


class Findings:
    """Holds counts in memory, and the kind of each row of the input in a file: of an id's rows only the first has one.

    shown: how many findings of each kind keep their places. counts: ids by `FindingKind`. extra_rows: of doubled ids,
    beyond the first; foreign_rows: of foreign ids. repeated: rows of the input whose id stood there before.
    """

    def __init__(self, folder: Path, rows: int, shown: int) -> None:
        path = folder / "kinds"
        path.write_bytes(b"")
        # A byte more: there is no map of an empty file.
        self._kinds = np.memmap(path, np.uint8, "w+", shape=(rows + 1,))
        self._rows, self._shown = rows, shown
        self.counts = dict.fromkeys(FindingKind, 0)
        self.extra_rows = self.foreign_rows = self.repeated = 0
        self._doubled, self._foreign = _NO_PAIRS, np.empty(0, np.uint64)

    def add(self, compared: Compared) -> None:
        """Takes what became of one bucket."""
        self._kinds[compared.rows.astype(np.intp)] = compared.kinds
        for kind, count in enumerate(np.bincount(compared.kinds, minlength=len(FindingKind)).tolist()):
            self.counts[FindingKind(kind)] += count
        self.counts[FindingKind.FOREIGN] += compared.foreign_ids
        self.extra_rows += compared.extra
        self.foreign_rows += len(compared.foreign)
        self.repeated += compared.repeated
        self._foreign = np.sort(np.concatenate([self._foreign, compared.foreign]))[: self._shown]
        pairs = np.concatenate([self._doubled, compared.doubled])
        self._doubled = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))][: 2 * self._shown]

    def kinds(self, first_row: int, rows: int) -> U8:
        """Returns the kinds of rows that follow one another; 0, OK, also for an id's later rows."""
        return np.array(self._kinds[first_row : first_row + rows])

    def change(self, rows: I64, kind: FindingKind) -> None:
        """Says that these rows of the input are of another kind than was found."""
        for old, count in enumerate(np.bincount(self._kinds[rows], minlength=len(FindingKind)).tolist()):
            self.counts[FindingKind(old)] -= count
        self._kinds[rows] = kind
        self.counts[kind] += len(rows)

    def first_rows(self, kind: FindingKind) -> list[int]:
        """Returns the first rows of the input that are of a kind, as many as are shown."""
        rows: list[int] = []
        for start in range(0, self._rows, _CHUNK):
            at = np.flatnonzero(self._kinds[start : min(start + _CHUNK, self._rows)] == kind)
            rows += (start + at[: self._shown - len(rows)]).tolist()
            if len(rows) >= self._shown:
                break
        return rows

    def places_of_doubled(self, row: int) -> list[int]:
        """Returns where the id of a row lies in the output, of the first that are doubled; else as far as is known."""
        row_codes: list[int] = self._doubled[self._doubled[:, 0] == row, 1].tolist()
        return row_codes

    def foreign_places(self) -> list[int]:
        """Returns the first places of foreign rows, as many as are shown."""
        row_codes: list[int] = self._foreign.tolist()
        return row_codes
