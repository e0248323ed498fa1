"""Defines the report of a comparison, for people and programs."""

from typing import Any

import msgspec

from oncegate.verifier.kinds import MEANINGS, FindingKind


class RowLocation(msgspec.Struct, frozen=True):
    """The location of an output row."""

    partition: int
    offset: int


class IdFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """An id with a finding. row: its first input row, from 0, if any; places: its known locations in the output."""

    id: str | list[str]
    row: int | None = None
    places: list[RowLocation] = []


class VerifyReport(msgspec.Struct, frozen=True):
    """Counts of ids by kind, and the first findings of each kind that is not OK.

    ok: nothing has to be done.
    input_rows: all input rows; repeated: those whose id occurred earlier.
    output_rows: all output rows; without_id, foreign_rows: those of that kind; doubled_rows: those beyond the first of
    their id.
    trimmed: partitions that begin after offset 0, with their first offset: earlier rows are gone and count as missing.
    repaired: None: not requested.
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
        """Returns the name, the number of ids and the meaning of each kind."""
        return [(kind.name.lower(), self.ids[kind.name.lower()], MEANINGS[kind]) for kind in FindingKind]


def as_json(report: VerifyReport) -> str:
    """Encodes a report as one JSON object."""
    members: Any = msgspec.to_builtins(report)
    return msgspec.json.encode(members).decode()
