"""A progress bar per run, with the state of each fault; where nobody can see a bar move, a line now and then."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from demo.data import BATCHES
from demo.events import Event
from demo.faults import FAULTS, RUNS, state
from demo.supervisor import Tell

# Narrower than this a fault is its sign alone: its name would push name, bar and count out of the line.
_NAMES_WIDTH = 150
# In a file or a pipe: often enough to see that it goes on.
_LINE_EACH_S = 10
_SIGNS = {"waiting": "[dim]· {}[/dim]", "injected": "[yellow]! {}[/yellow]", "hit": "[green]✓ {}[/green]"}


class Bars:
    """Shown while it is open; a bar turns when its run begins."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
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
        self._bars = {name: self._bar(name) for name in RUNS}

    def _bar(self, name: str) -> TaskID:
        return self._progress.add_task(name, total=BATCHES, start=False, faults=self._faults([]))

    def __enter__(self) -> "Bars":
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def of(self, name: str) -> Tell:
        """What a run is to call."""
        bar = self._bars[name]
        self._progress.start_task(bar)
        began_s = said_s = self._clock()
        said = 0

        def tell(batches: int, events: list[Event]) -> None:
            nonlocal said_s, said
            self._progress.update(bar, completed=batches, faults=self._faults(events))
            now_s = self._clock()
            if not self._console.is_terminal and (now_s - said_s >= _LINE_EACH_S or said < batches == BATCHES):
                said_s, said = now_s, batches
                line = f"{name:>6} {batches}/{BATCHES} batches {now_s - began_s:.0f} s {signs(events, named=False)}"
                self._console.print(line, highlight=False)

        return tell

    def _faults(self, events: list[Event]) -> str:
        return signs(events, named=self._console.width >= _NAMES_WIDTH)


def signs(events: list[Event], *, named: bool = True) -> str:
    """`✓ task_error ! worker_kill · driver_kill …`: hit, injected, waiting; without names `✓ ! · …`."""
    shown = (_SIGNS[state(fault, events)].format(fault.name if named else "") for fault in FAULTS)
    return " ".join(one.replace(" [/", "[/") for one in shown)
