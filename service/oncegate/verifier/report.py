"""Describes what a run has found, for a person, a program or a picture."""

from typing import Any

import msgspec

from oncegate.verifier.kinds import MEANINGS, FindingKind


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
