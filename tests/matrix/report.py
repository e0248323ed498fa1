"""The matrix as a table, and whether it shows what is promised."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.table import Table

from bench.report.report import machine
from tests.matrix.rows import Row


@dataclass
class Counted:
    """What the runs of one row came to; `wrong`: what was found of them, a line each."""

    row: Row
    runs: int = 0
    hits: int = 0
    duplicated: int = 0
    lost: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def bound(self) -> float:
        """What the rate of failures is below, at 95 % (the rule of three)."""
        return 3 / self.hits if self.hits else 1.0

    @property
    def verdict(self) -> str:
        """`holds`, or what is wrong."""
        if self.wrong:
            return self.wrong[0].splitlines()[0][:160]
        if not self.hits:
            return "never hit, shows nothing"
        if self.row.control:
            return "seen" if self.duplicated else "no duplicates seen: the check is blind"
        return "holds" if not self.duplicated and not self.lost else "BROKEN"

    @property
    def is_good(self) -> bool:
        """Whether it shows what it should."""
        return self.verdict in ("holds", "seen")


HEADINGS = ("row", "tries", "what happens", "runs", "hits", "duplicated", "lost", "bound", "verdict")


def _cells(one: Counted) -> tuple[str, ...]:
    row = one.row
    numbers = (one.runs, one.hits, one.duplicated, one.lost)
    bound = f"{one.bound:.2f}" if one.is_good and not row.control else "–"
    return (f"`{row.name}`", row.of, row.what, *map(str, numbers), bound, one.verdict)


def table(counted: Sequence[Counted]) -> Table:
    """The rows for a terminal."""
    shown = Table(*HEADINGS)
    for one in counted:
        shown.add_row(*(cell.strip("`") for cell in _cells(one)), style=None if one.is_good else "red")
    return shown


def markdown(counted: Sequence[Counted], command: str, seconds: float) -> str:
    """The rows for a page."""
    lines = [f"`{command}`, {sum(one.runs for one in counted)} runs in {seconds / 60:.0f} minutes; {machine()}", ""]
    lines += [f"| {' | '.join(cells)} |" for cells in (HEADINGS, ["---"] * len(HEADINGS), *map(_cells, counted))]
    return "\n".join(lines) + "\n"
