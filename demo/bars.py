"""Shows a progress bar for each run, with the state of each fault; without a terminal, a line from time to time."""

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from demo.events import Event
from demo.faults import Fault, state
from demo.plan import Plan
from demo.supervisor import Tell

# Width of a line without its faults. If their names do not fit after it, they would displace name, bar and count, so
# only the sign of each fault is shown.
_LINE_WIDTH = 60
# Interval of lines in a file or a pipe: short enough to show that the run is alive.
_LINE_EACH_S = 10
_SIGNS = {"waiting": "[dim]· {}[/dim]", "injected": "[yellow]! {}[/yellow]", "hit": "[green]✓ {}[/green]"}


class Bars:
    """Progress bars, shown while the context is open; a bar is animated once its run begins."""

    def __init__(self, console: Console, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._plan, self._clock = console, plan, clock
        self._batches = plan.size.batches
        self._progress = Progress(
            TextColumn("{task.description:>6}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("batches"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[faults]}"),
            console=console,
            refresh_per_second=5,
            disable=not console.is_terminal,
        )
        self._bars = {way.name: self._bar(way.name) for way in plan.ways}

    def _bar(self, name: str) -> TaskID:
        return self._progress.add_task(name, total=self._batches, start=False, faults=self._faults(name, []))

    def __enter__(self) -> "Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def of(self, name: str) -> Tell:
        """Returns the callback with which a run reports its progress."""
        bar = self._bars[name]
        self._progress.start_task(bar)
        began_s = said_s = self._clock()
        said = 0

        def tell(batches: int, events: list[Event]) -> None:
            nonlocal said_s, said
            self._progress.update(bar, completed=batches, faults=self._faults(name, events))
            now_s = self._clock()
            if not self._console.is_terminal and (now_s - said_s >= _LINE_EACH_S or said < batches == self._batches):
                said_s, said = now_s, batches
                shown = signs(self._plan.faults_of(name), events, named=False)
                line = f"{name:>6} {batches}/{self._batches} batches {now_s - began_s:.0f} s {shown}"
                self._console.print(line, highlight=False)

        return tell

    def _faults(self, name: str, events: list[Event]) -> str:
        faults = self._plan.faults_of(name)
        width = _LINE_WIDTH + sum(len(fault.name) + 3 for fault in faults)
        return signs(faults, events, named=self._console.width >= width)


def signs(faults: Sequence[Fault], events: list[Event], *, named: bool = True) -> str:
    """Returns the signs of faults, as in `✓ task_error ! worker_kill · driver_kill`: hit, injected, waiting.

    Without names: `✓ ! ·`.
    """
    shown = (_SIGNS[state(fault, events)].format(fault.name if named else "") for fault in faults)
    return " ".join(sign.replace(" [/", "[/") for sign in shown)
