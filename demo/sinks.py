"""The sink of the claim run: the client's file sink, with a worker that can be killed between write and complete."""

import pyarrow as pa

from demo.hooks import BATCHES_BEFORE_THE_KILL, Here, kill_this_process
from oncegate_spark.spark.sinks import SUFFIX, FileSink, SinkContext


def files() -> "StruckFiles":
    """Returns the sink, for the option `sink`."""
    return StruckFiles()


class StruckFiles:
    """Injects worker_kill after the second batch is on disk, before it is completed."""

    def __init__(self) -> None:
        self._inner = FileSink()
        self._here = Here()
        self._file = ""
        self._batches = 0

    def open(self, context: SinkContext) -> None:
        self._file = context.token + SUFFIX
        self._inner.open(context)

    def write(self, rows: pa.RecordBatch) -> None:
        """Writes rows; dies after the second batch if the fault is due."""
        self._inner.write(rows)
        self._batches += 1
        self._here.say("sunk", file=self._file, rows=rows.num_rows)
        if self._batches == BATCHES_BEFORE_THE_KILL and self._here.strikes("worker_kill"):
            self._here.injected("worker_kill", rows=rows.num_rows)
            kill_this_process()

    def close(self) -> None:
        self._inner.close()
