"""Shows the progress of the matrix: a bar on a terminal, else a line for each row."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.matrix.report import Counted
from tests.matrix.runs import Report


@contextmanager
def progress_reporter(todo: Sequence[Counted], console: Console) -> Iterator[Report]:
    """Yields the function to call after each run of these rows."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    left = {one.row.name: one.asked - one.runs for one in todo}
    with Progress(*columns, *times, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("matrix", total=sum(left.values()))

        def report(counted: Counted) -> None:
            left[counted.row.name] = 0 if counted.is_over else counted.asked - counted.runs
            progress.update(bar, completed=(progress.tasks[0].total or 0) - sum(left.values()))
            if counted.is_over:
                console.print(_line(counted), highlight=False, markup=False)

        yield report


def _line(one: Counted) -> str:
    return f"{one.row.name}: {one.hits} of {one.runs} hit, {one.verdict}, {one.seconds:.0f} s"
