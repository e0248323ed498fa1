"""One process of the matrix: runs the rows that it receives, on its own brokers, and reports the counts."""

import signal
import sys
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.matrix.report import Counted, of_plain
from tests.matrix.runs import STAGES, Stage, run

# Names a job's folder in the environment of all processes that it started.
FOLDER = "MATRIX_JOB"
OVER = None


def work(pipe: "Connection[dict[str, Any] | None, dict[str, Any]]", folder: Path) -> None:
    """Runs each row that arrives through the pipe; sends the counts after each run, and then OVER. Ends when the pipe
    closes.

    SIGTERM also ends it, with all processes that it started.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack, pipe:
        stage, brokers = None, 0
        while (counted := _next(pipe)) is not None:
            if stage is None or brokers != counted.row.brokers:
                stack.close()
                brokers = counted.row.brokers
                stage = stack.enter_context(STAGES[brokers](folder))
            _run(counted, stage, folder, pipe)


def _next(pipe: "Connection[Any, Any]") -> Counted | None:
    try:
        return of_plain(pipe.recv())
    except EOFError:
        return None


def _run(counted: Counted, stage: Stage, folder: Path, pipe: "Connection[Any, Any]") -> None:
    run(counted, stage, folder, lambda counts: pipe.send(counts.plain()))
    pipe.send(OVER)
