"""Runs the fault matrix of the ledger on Kafka, row after row: `make matrix`.

    python -m tests.matrix [--runs N] [--only NAME,NAME...] [--jobs N] [--resume] [--list]

Distributes the rows over jobs, each with its own brokers. Prints the table. Stores the counts in out/matrix/result.json
after each run and in result.md at the end; `--resume` continues from there. Exit status 1: a row does not hold, or a
job died; 130: interrupted. The runs of a row are numbered, and the number determines the append that is struck:
`--only ROW --runs K` repeats the first K.
"""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from demo.processes import end_as_ctrl_c
from tests.matrix.catalogue import ROWS
from tests.matrix.jobs import jobs_that_fit, perform
from tests.matrix.progress import progress_reporter
from tests.matrix.report import Counted, table
from tests.matrix.results import Results
from tests.matrix.rows import Row

OUT = Path(__file__).parents[2] / "out" / "matrix"
RUNS = 50
INTERRUPTED = 130
# The table's width in characters.
WIDTH = 180


def wanted(names: str | None) -> list[Row]:
    """Returns the rows with these names, or that try a row of the design with one of these names. Raises ValueError for
    an unknown name."""
    chosen = names.split(",") if names else []
    for name in chosen:
        if not any(name == row.name or name in row.of.split() for row in ROWS):
            raise ValueError(f"there is no row {name}; --list names them")
    return [row for row in ROWS if not chosen or row.name in chosen or set(row.of.split()) & set(chosen)]


def main() -> int:
    arguments = _arguments()
    end_as_ctrl_c()
    console = Console(width=WIDTH) if not Console().is_terminal else Console()
    if arguments.list:
        for row in arguments.rows:
            console.print(f"{row.name:24} {row.of:16} {row.what}", highlight=False)
        return 0
    died, status = list[str](), 0
    try:
        died = _performed(arguments, console)
    except KeyboardInterrupt:
        status = INTERRUPTED
    arguments.results.finish(_command(arguments))
    console.print(table(arguments.results.all))
    for line in died:
        console.print(f"[red]{line}[/red]", highlight=False)
    if missing := arguments.results.missing:
        rows = ", ".join(f"{one.row.name} ({one.runs} of {one.asked})" for one in missing)
        console.print(f"missing: {rows}; --resume continues from {arguments.results.path}", highlight=False)
    return status or int(bool(died) or not all(one.is_good for one in arguments.results.all))


def _performed(arguments: argparse.Namespace, console: Console) -> list[str]:
    todo = arguments.results.ask([row.name for row in arguments.rows], arguments.runs)
    with tempfile.TemporaryDirectory(prefix="oncegate-matrix-") as folder, progress_reporter(todo, console) as show:

        def report(counted: Counted) -> None:
            arguments.results.take(counted)
            show(counted)

        return perform(todo, arguments.jobs, Path(folder), report)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each row  [default: %(default)s]")
    parser.add_argument("--only", help="names of rows, or of rows of the design as K3 or X08, joined by commas")
    parser.add_argument("--jobs", type=int, default=jobs_that_fit(), help="processes at a time  [default: %(default)s]")
    parser.add_argument("--resume", action="store_true", help="go on from out/matrix/result.json, and keep its rows")
    parser.add_argument("--list", action="store_true", help="print the rows, and run none")
    arguments = parser.parse_args()
    if arguments.runs < 1 or arguments.jobs < 1:
        parser.error("--runs and --jobs are 1 or more")
    try:
        arguments.rows = wanted(arguments.only)
        arguments.results = None if arguments.list else Results(OUT, resumed=arguments.resume)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def _command(arguments: argparse.Namespace) -> str:
    """Returns the command that repeats the run."""
    words = f"--runs {arguments.runs} --jobs {arguments.jobs}" + (f" --only {arguments.only}" if arguments.only else "")
    return f'make matrix ARGS="{words}{" --resume" if arguments.resume else ""}"'


if __name__ == "__main__":
    raise SystemExit(main())
