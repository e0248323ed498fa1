"""Runs every fault against every way to write; exits with status 0 only if every promise was shown.

Each run is a job of a few micro-batches with one fault; the kinds of jobs take turns. One run per cell takes ten
minutes in total.
"""

import argparse
import sys
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from demo.matrix import report
from demo.matrix.runs import FAULTS, WAYS, Run, runs_of
from demo.matrix.supervisor import Counted, Runs
from demo.processes import ROOT, alone, end_as_ctrl_c, shown, temporary_files
from demo.supervisor import RunFailed

INTERRUPTED = 130


def main() -> int:
    """Runs the matrix; returns the exit status."""
    arguments = _arguments()
    end_as_ctrl_c()
    console, began_s = Console(width=None if sys.stdout.isatty() else 160), time.monotonic()
    out: Path = arguments.out.resolve()
    try:
        with alone(out), temporary_files(out / "tmp"):
            counted = perform(console, out, _drawn(arguments, out))
            return conclude(console, out, counted, _command(arguments), time.monotonic() - began_s)
    except KeyboardInterrupt:
        console.print("[yellow]stopped; everything that was started is stopped too[/yellow]")
        return INTERRUPTED
    except (RunFailed, RuntimeError, OSError) as error:
        console.print(f"[red]the matrix could not be finished:[/red] {error}", highlight=False)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.matrix", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="of each cell  [default: 1]")
    parser.add_argument("--seed", type=int, default=0, help="draws jobs and struck batches  [default: 0]")
    parser.add_argument("--only", nargs="+", choices=[*FAULTS, *WAYS], default=[], help="these faults, or ways, alone")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "spark-matrix", help="emptied first")
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error(f"--runs is {arguments.runs}; give 1 or more")
    return arguments


def _command(arguments: argparse.Namespace) -> str:
    """Returns the command that repeats these runs."""
    words = [f"--runs {arguments.runs}"] * (arguments.runs != 1) + [f"--seed {arguments.seed}"] * (arguments.seed != 0)
    words += [f"--only {' '.join(arguments.only)}"] * bool(arguments.only)
    return f'make spark-matrix ARGS="{" ".join(words)}"' if words else "make spark-matrix"


def _drawn(arguments: argparse.Namespace, out: Path) -> list[Run]:
    """Returns the runs, grouped by the kind of Spark that they need."""
    faults = [name for name in FAULTS if name in arguments.only] or list(FAULTS)
    ways = tuple(way for way in WAYS if way in arguments.only) or WAYS
    runs = [run for fault in faults for run in runs_of(fault, ways, arguments.runs, arguments.seed, out)]
    return sorted(runs, key=_where)


def _where(run: Run) -> str:
    return FAULTS[run.fault].where


def perform(console: Console, out: Path, runs: list[Run]) -> list[Counted]:
    """Performs the runs with a progress bar; without a terminal, prints a line for each run."""
    columns = (TextColumn("{task.description:>14}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"))
    counted: list[Counted] = []
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(runs))
        for where, group in groupby(runs, _where):
            before = len(counted)

            def tell(finished: int, where: str = where, before: int = before) -> None:
                progress.update(bar, completed=before + finished, description=where)

            (out / where).mkdir()
            counted += Runs(list(group), out / where, _also_lines(console, tell, where)).go()
    return counted


def _also_lines(console: Console, tell: Callable[[int], None], where: str) -> Callable[[int], None]:
    began_s, said = time.monotonic(), 0

    def told(finished: int) -> None:
        nonlocal said
        tell(finished)
        if not console.is_terminal and finished > said:
            said = finished
            console.print(f"{where}: {finished} runs, {time.monotonic() - began_s:.0f} s", highlight=False)

    return told


def conclude(console: Console, out: Path, counted: list[Counted], command: str, seconds: float) -> int:
    """Prints and saves the cells; returns 0 if they show every promise."""
    cells = report.cells(counted)
    report.show(console, cells)
    report.write(out, cells, counted, command, seconds)
    failed = report.failures(cells)
    for failure in failed:
        console.print(f"[red]✗ {failure}[/red]", highlight=False)
    verdict = "[red]not shown[/red]" if failed else "[green]every fault was hit; every promise held[/green]"
    console.print(f"\nspark-matrix: {verdict} in {seconds:.0f} s · {shown(out / 'result.md')}", highlight=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
