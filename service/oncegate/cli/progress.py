"""Shows progress of long verbs: a bar on stderr if it is a terminal, otherwise nothing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from oncegate.ledgers.disk import Disk


@contextmanager
def counted(shown: str, *folders: Path, times: int) -> "Iterator[Disk]":
    """Yields a disk whose reads advance a bar; its total is the size of the folders, read `times` times."""
    from oncegate.ledgers.disk import Disk

    class CountingDisk(Disk):
        """Moves the bar with every byte that is read."""

        def read(self, path: Path, offset: int = 0, size_bytes: int | None = None) -> bytes:
            data = super().read(path, offset, size_bytes)
            bar.advance(task, len(data))
            return data

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(shown, total=times * sum(map(_size_bytes, folders)))
        yield CountingDisk()


@contextmanager
def steps() -> Iterator[Callable[[str, int, int | None], None]]:
    """Yields a function that updates a bar, given a step's name, the amount done and the total (if known)."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        tasks: dict[str, TaskID] = {}

        def move(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=total)
            bar.update(tasks[step], completed=done)

        yield move


def _size_bytes(folder: Path) -> int:
    """Returns the total size of the files in a folder; skips files that disappear in the meantime."""
    sizes = 0
    for path in folder.rglob("*"):
        try:
            sizes += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return sizes
