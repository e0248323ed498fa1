"""Distributes the rows of the matrix over processes, each with its own brokers."""

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
from tests.matrix.runs import Report

# Time for a job to stop the processes that it started.
STOP_S = 60
# A job runs a gateway, this process and one broker, for some rows three; these constants cover their cores and memory.
CORES_EACH = 2
MEMORY_EACH_BYTES = 2 << 30


def jobs_that_fit() -> int:
    """Returns how many jobs fit this machine: at least two if memory allows, since most of a run is waiting."""
    by_cores = max(2, (os.cpu_count() or 1) // CORES_EACH)
    return int(max(1, min(by_cores, psutil.virtual_memory().total // MEMORY_EACH_BYTES)))


class Job:
    """A process that runs rows. `row`: the name of its present row; empty if none."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.row = folder, ""
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, folder), name=folder.name)
        # The tracker serves every job, so it must not inherit the folder of the first.
        resource_tracker.ensure_running()
        with _inherited(folder):
            self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def give(self, counted: Counted) -> None:
        """Makes it run the remaining runs of a row."""
        self.row = counted.row.name
        self.pipe.send(counted.plain())

    def end(self) -> None:
        """Ends the job and every process that it started and left running."""
        self.pipe.close()
        if self.row:
            self._process.terminate()
        self._process.join(STOP_S)
        # Repeats until none is left: a process may have started another just before its death.
        while started := _started_by(self.folder):
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(started, STOP_S)
        self._process.join()


@contextmanager
def _inherited(folder: Path) -> Iterator[None]:
    """Marks processes started within the context with the job's folder, and leaves Ctrl-C to this process, which ends
    them in order."""
    os.environ[FOLDER] = str(folder)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        del os.environ[FOLDER]


def _started_by(folder: Path) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(FOLDER) == str(folder):
                processes.append(process)
    return processes


def perform(
    todo: Sequence[Counted], jobs: int, folder: Path, report: Report, started: Callable[[Job], None] = lambda _: None
) -> list[str]:
    """Runs the remaining runs of the rows and calls `report` after each. Returns a line for each row whose job died.

    The other jobs continue. Any exception ends all jobs and the processes that they started. `started` is called with
    each job.
    """
    # Rows with the same brokers are adjacent, so that a job starts each kind once.
    waiting, died = deque(sorted(todo, key=lambda one: one.row.brokers)), list[str]()
    live: list[Job] = []
    try:
        for number in range(min(jobs, len(waiting))):
            live.append(Job(folder / f"job-{number}"))
            started(live[-1])
            live[-1].give(waiting.popleft())
        while busy := {job.pipe: job for job in live if job.row}:
            for pipe in connection.wait(list(busy)):
                if not _hear(busy[pipe], waiting, report):  # type: ignore[index]
                    died.append(f"{busy[pipe].row}: its job died")  # type: ignore[index]
                    live.remove(busy[pipe])  # type: ignore[index]
                    busy[pipe].end()  # type: ignore[index]
    finally:
        for job in live:
            job.end()
    return died


def _hear(job: Job, waiting: deque[Counted], report: Report) -> bool:
    """Handles a job's message, and gives it the next row when one is over. Returns False if the job is dead."""
    try:
        message = job.pipe.recv()
    except (EOFError, OSError):
        return False
    if message is not OVER:
        report(of_plain(message))
        return True
    job.row = ""
    if waiting:
        job.give(waiting.popleft())
    return True
