"""The matrix as a table, and whether it shows the promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from bench.report.report import machine
from tests.matrix.catalogue import BY_NAME
from tests.matrix.rows import Row

_COUNTS = ("asked", "runs", "hits", "duplicated", "lost", "seconds", "wrong")


@dataclass
class Counted:
    """The counts of one row's runs, of the number `asked` for; `wrong`: a line for each problem."""

    row: Row
    asked: int = 0
    runs: int = 0
    hits: int = 0
    duplicated: int = 0
    lost: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def bound(self) -> float:
        """Returns the upper bound of the failure rate at 95 % confidence (the rule of three)."""
        return 3 / self.hits if self.hits else 1.0

    @property
    def is_over(self) -> bool:
        """Returns whether no run is left: a row ends at its first problem."""
        return bool(self.wrong) or self.runs >= self.asked

    @property
    def verdict(self) -> str:
        """Returns `holds`, or the problem."""
        if self.wrong:
            return self.wrong[0].splitlines()[0][:160]
        if not self.row.control and (self.duplicated or self.lost):
            return "BROKEN"
        if not self.is_over:
            return f"missing: {self.asked - self.runs} of {self.asked} runs"
        if not self.hits:
            return "never hit, shows nothing"
        if self.row.control:
            return "seen" if self.duplicated else "no duplicates seen: the check is blind"
        return "holds"

    @property
    def is_good(self) -> bool:
        """Returns whether the row shows the expected outcome."""
        return self.verdict in ("holds", "seen")

    def plain(self) -> dict[str, Any]:
        """Returns the counts as JSON types, for `of_plain`."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {"row": self.row.name, "of": self.row.of.split(), **counts, "bound": self.bound, "verdict": self.verdict}


def of_plain(plain: Mapping[str, Any]) -> Counted:
    """Rebuilds the counts of a known row."""
    return Counted(BY_NAME[plain["row"]], **{name: plain[name] for name in _COUNTS})


HEADINGS = ("row", "tries", "what happens", "runs", "hits", "duplicated", "lost", "bound", "seconds", "verdict")


def _cells(one: Counted) -> tuple[str, ...]:
    row = one.row
    numbers = (one.runs, one.hits, one.duplicated, one.lost)
    bound = f"{one.bound:.2f}" if one.is_good and not row.control else "–"
    return (f"`{row.name}`", row.of, row.what, *map(str, numbers), bound, f"{one.seconds:.0f}", one.verdict)


def table(counted: Sequence[Counted]) -> Table:
    """Returns the rows as a table for a terminal."""
    shown = Table(*HEADINGS)
    for one in counted:
        shown.add_row(*(cell.strip("`") for cell in _cells(one)), style=None if one.is_good else "red")
    return shown


def markdown(counted: Sequence[Counted], command: str) -> str:
    """Returns the rows as a Markdown table."""
    runs, minutes = sum(one.runs for one in counted), sum(one.seconds for one in counted) / 60
    lines = [f"`{command}`, {runs} runs, {minutes:.0f} minutes of all rows together; {machine()}", ""]
    lines += [f"| {' | '.join(cells)} |" for cells in (HEADINGS, ["---"] * len(HEADINGS), *map(_cells, counted))]
    return "\n".join(lines) + "\n"
