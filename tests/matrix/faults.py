"""The faults of a ledger on Kafka and of what writes through it, each with what shows it: docs/faults.md.

    python -m tests.matrix.faults

writes the page anew from faults.txt and the rows of the matrix.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tests.matrix.catalogue import ROWS

LISTED = Path(__file__).with_name("faults.txt")
PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
# What begins the promise of a fault that nothing shows: why that is.
NOT_SHOWN = "–"
HEAD = """# Faults

Each fault that was thought of, what is promised of it, and what shows it. X: of a write, from the client to the ledger;
K: of Kafka; L: of what clients write themselves. The page is written by `python -m tests.matrix.faults`, and a test
holds it against the rows of the matrix and the tests there are. A name without a folder is a row of the
[matrix](../RELIABILITY.md#faults-against-a-ledger-on-kafka), which strikes a real gateway over real brokers; `–` says
why nothing is shown.

| | fault | promised | shown by | command |
|---|---|---|---|---|
"""


class Fault(NamedTuple):
    """`tests`: as pytest names them; `rows`: of the matrix."""

    name: str
    what: str
    promised: str
    tests: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def is_shown(self) -> bool:
        return bool(self.tests or self.rows)

    @property
    def commands(self) -> tuple[str, ...]:
        """The lines of a shell that show it."""
        files = dict.fromkeys(test.partition("::")[0] for test in self.tests)
        matrix = (f'make matrix ARGS="--only {self.name}"',) if self.rows else ()
        return (*matrix, *([f'make test ARGS="{" ".join(files)}"'] if files else ()))


def faults() -> list[Fault]:
    """All of them, in the order of the list."""
    found = []
    for line in LISTED.read_text().splitlines():
        name, what, promised, tests = (part.strip() for part in line.split("|"))
        rows = tuple(row.name for row in ROWS if name in row.of.split())
        found.append(Fault(name, what, promised, tuple(tests.split()), rows))
    return found


def page(listed: Iterable[Fault]) -> str:
    """The page's text."""
    return HEAD + "".join(_line(fault) for fault in listed)


def _line(fault: Fault) -> str:
    shown = ", ".join(f"`{one}`" for one in (*fault.rows, *fault.tests)) or NOT_SHOWN
    commands = "; ".join(f"`{one}`" for one in fault.commands) or NOT_SHOWN
    return f"| {fault.name} | {fault.what} | {fault.promised} | {shown} | {commands} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(faults()))
