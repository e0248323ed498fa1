"""A progress bar per run, with the state of each fault."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from demo.data import BATCHES
from demo.events import Event
from demo.faults import FAULTS, RUNS, state
from demo.supervisor import Tell

_SIGNS = {"waiting": "[dim]· {}[/dim]", "injected": "[yellow]! {}[/yellow]", "hit": "[green]✓ {}[/green]"}


class Bars:
    """Shown while it is open; a bar turns when its run begins."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:>6}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("batches"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[faults]}"),
            console=console,
            refresh_per_second=5,
        )
        self._bars = {name: self._bar(name) for name in RUNS}

    def _bar(self, name: str) -> TaskID:
        return self._progress.add_task(name, total=BATCHES, start=False, faults=signs([]))

    def __enter__(self) -> "Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def of(self, name: str) -> Tell:
        """What a run is to call."""
        bar = self._bars[name]
        self._progress.start_task(bar)

        def tell(batches: int, events: list[Event]) -> None:
            self._progress.update(bar, completed=batches, faults=signs(events))

        return tell


def signs(events: list[Event]) -> str:
    """`✓ task_error  ! worker_kill  · driver_kill …`: hit, injected, waiting."""
    return " ".join(_SIGNS[state(fault, events)].format(fault.name) for fault in FAULTS)
