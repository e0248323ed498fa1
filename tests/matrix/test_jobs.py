"""Jobs that end early: the other jobs' rows are counted, and no process that a job started is left."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.matrix.catalogue import ROWS
from tests.matrix.job import FOLDER
from tests.matrix.jobs import Job, perform
from tests.matrix.report import Counted

pytestmark = pytest.mark.slow
TODO = [Counted(row, asked=1) for row in ROWS[:2]]


def left(folder: Path) -> list[int]:
    """Returns the processes marked with a job's folder below this one."""
    pids = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(FOLDER, "").startswith(str(folder)):
                pids.append(process.pid)
        except (psutil.Error, OSError):
            pass
    return pids


def when_it_has_a_child(then: Callable[[Job], None]) -> Callable[[Job], None]:
    """Waits until a job has begun to start its broker."""

    def started(job: Job) -> None:
        while not psutil.Process(job.pid).children():
            pass
        then(job)

    return started


def test_a_job_that_is_killed_is_named_with_its_row_and_leaves_no_process(tmp_path: Path) -> None:
    killed = when_it_has_a_child(lambda job: os.kill(job.pid, signal.SIGKILL))

    def run_and_kill(job: Job) -> None:
        job.give(TODO[0])
        killed(job)

    died = perform(TODO[:1], 1, tmp_path, lambda _: None, run_and_kill)
    assert died == [f"{TODO[0].row.name}: its job died"]
    assert left(tmp_path) == []


def test_what_ends_the_matrix_ends_its_jobs_and_their_brokers(tmp_path: Path) -> None:
    def interrupted(job: Job) -> None:
        job.give(TODO[0])
        when_it_has_a_child(lambda _: None)(job)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perform(TODO[:1], 1, tmp_path, lambda _: None, interrupted)
    assert left(tmp_path) == []
