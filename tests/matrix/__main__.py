"""Strikes a gateway over a ledger on Kafka, row after row: `make matrix`.

    python -m tests.matrix [--runs N] [--only NAME,NAME...] [--jobs N] [--resume] [--list]

Rows are shared out among jobs, each with brokers of its own. Prints the table, and keeps what was counted in
out/matrix/result.json after each run, in the end in result.md too; `--resume` goes on from there. Exit status 1: a row
does not hold, or a job died; 130: it was stopped. The runs of a row are numbered, and the number says what is struck:
`--only ROW --runs K` repeats the first K.
"""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from demo.processes import end_as_ctrl_c
from tests.matrix.catalogue import ROWS
from tests.matrix.jobs import jobs_that_fit, perform
from tests.matrix.progress import telling
from tests.matrix.report import Counted, table
from tests.matrix.results import Results
from tests.matrix.rows import Row

OUT = Path(__file__).parents[2] / "out" / "matrix"
RUNS = 50
INTERRUPTED = 130
# What a line of the table takes.
WIDTH = 180


def wanted(names: str | None) -> list[Row]:
    """The rows of these names, or that try a row of the design of one of these; ValueError: of one there is none."""
    asked = names.split(",") if names else []
    for name in asked:
        if not any(name == row.name or name in row.of.split() for row in ROWS):
            raise ValueError(f"there is no row {name}; --list names them")
    return [row for row in ROWS if not asked or row.name in asked or set(row.of.split()) & set(asked)]


def main() -> int:
    asked = _arguments()
    end_as_ctrl_c()
    console = Console(width=WIDTH) if not Console().is_terminal else Console()
    if asked.list:
        for row in asked.rows:
            console.print(f"{row.name:24} {row.of:16} {row.what}", highlight=False)
        return 0
    died, status = list[str](), 0
    try:
        died = _performed(asked, console)
    except KeyboardInterrupt:
        status = INTERRUPTED
    asked.results.finish(_command(asked))
    console.print(table(asked.results.all))
    for line in died:
        console.print(f"[red]{line}[/red]", highlight=False)
    if missing := asked.results.missing:
        rows = ", ".join(f"{one.row.name} ({one.runs} of {one.asked})" for one in missing)
        console.print(f"missing: {rows}; --resume goes on from {asked.results.path}", highlight=False)
    return status or int(bool(died) or not all(one.is_good for one in asked.results.all))


def _performed(asked: argparse.Namespace, console: Console) -> list[str]:
    todo = asked.results.ask([row.name for row in asked.rows], asked.runs)
    with tempfile.TemporaryDirectory(prefix="oncegate-matrix-") as folder, telling(todo, console) as tell:

        def told(counted: Counted) -> None:
            asked.results.take(counted)
            tell(counted)

        return perform(todo, asked.jobs, Path(folder), told)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each row  [default: %(default)s]")
    parser.add_argument("--only", help="names of rows, or of rows of the design as K3 or X08, joined by commas")
    parser.add_argument("--jobs", type=int, default=jobs_that_fit(), help="processes at a time  [default: %(default)s]")
    parser.add_argument("--resume", action="store_true", help="go on from out/matrix/result.json, and keep its rows")
    parser.add_argument("--list", action="store_true", help="print the rows, and run none")
    asked = parser.parse_args()
    if asked.runs < 1 or asked.jobs < 1:
        parser.error("--runs and --jobs are 1 or more")
    try:
        asked.rows = wanted(asked.only)
        asked.results = None if asked.list else Results(OUT, resumed=asked.resume)
    except ValueError as error:
        parser.error(str(error))
    return asked


def _command(asked: argparse.Namespace) -> str:
    """What repeats it."""
    words = f"--runs {asked.runs} --jobs {asked.jobs}" + (f" --only {asked.only}" if asked.only else "")
    return f'make matrix ARGS="{words}{" --resume" if asked.resume else ""}"'


if __name__ == "__main__":
    raise SystemExit(main())
