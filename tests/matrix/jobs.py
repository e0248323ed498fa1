"""Shares the rows of the matrix out among processes, each with brokers of its own."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, get_context, resource_tracker
from pathlib import Path

import psutil

from tests.matrix.job import FOLDER, OVER, work
from tests.matrix.report import Counted, of_plain
from tests.matrix.runs import Told

# What a job may take to stop what it has started.
STOP_S = 60
# A job has a gateway, this process and one broker, for some rows three: what that keeps busy, and its memory.
CORES_EACH = 2
MEMORY_EACH_BYTES = 2 << 30


def jobs_that_fit() -> int:
    """How many jobs this machine has room for: two at least, since most of a run is waiting."""
    by_cores = max(2, (os.cpu_count() or 1) // CORES_EACH)
    return int(max(1, min(by_cores, psutil.virtual_memory().total // MEMORY_EACH_BYTES)))


class Job:
    """A process that runs rows. `row`: the name of the one that it has; empty: none."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.row = folder, ""
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, folder), name=folder.name)
        # It is every job's: it is not to bear the folder of the first.
        resource_tracker.ensure_running()
        with _inherited(folder):
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def give(self, counted: Counted) -> None:
        """Lets it run what is left of a row."""
        self.row = counted.row.name
        self.pipe.send(counted.plain())

    def end(self) -> None:
        """Ends it, and whatever it has started and left behind."""
        self.pipe.close()
        if self.row:
            self._process.terminate()
        self._process.join(STOP_S)
        # Again until there are none: what dies last may just have started another.
        while started := _started_by(self.folder):
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(started, STOP_S)
        self._process.join()


@contextmanager
def _inherited(folder: Path) -> Iterator[None]:
    """What is started within bears the job's folder, and leaves Ctrl-C to this process, which ends it in order."""
    os.environ[FOLDER] = str(folder)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        del os.environ[FOLDER]


def _started_by(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(FOLDER) == str(folder):
                found.append(process)
    return found


def perform(
    todo: Sequence[Counted], jobs: int, folder: Path, told: Told, started: Callable[[Job], None] = lambda _: None
) -> list[str]:
    """Runs what is left of the rows, `told` after each run; returns the rows whose job died, a line each.

    The other jobs go on without it. Whatever ends this ends all jobs, and what they have started. `started`: is told
    of each job.
    """
    # Rows with other brokers stand together, so that a job starts each kind once.
    waiting, died = deque(sorted(todo, key=lambda one: one.row.brokers)), list[str]()
    live: list[Job] = []
    try:
        for number in range(min(jobs, len(waiting))):
            live.append(Job(folder / f"job-{number}"))
            started(live[-1])
            live[-1].give(waiting.popleft())
        while busy := {job.pipe: job for job in live if job.row}:
            for pipe in connection.wait(list(busy)):
                if not _hear(busy[pipe], waiting, told):  # type: ignore[index]
                    died.append(f"{busy[pipe].row}: its job died")  # type: ignore[index]
                    live.remove(busy[pipe])  # type: ignore[index]
                    busy[pipe].end()  # type: ignore[index]
    finally:
        for job in live:
            job.end()
    return died


def _hear(job: Job, waiting: deque[Counted], told: Told) -> bool:
    """Takes what a job tells, and gives it the next row when one is over; False: it is dead."""
    try:
        message = job.pipe.recv()
    except (EOFError, OSError):
        return False
    if message is not OVER:
        told(of_plain(message))
        return True
    job.row = ""
    if waiting:
        job.give(waiting.popleft())
    return True
