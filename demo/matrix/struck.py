"""format("oncegate_matrix"): the product's own format, and its sink of files, struck once by the fault of a run."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from demo.events import Events, of_kind
from demo.hooks import block_until_killed, kill_this_process
from demo.source import Counted
from oncegate_spark.spark import task_identity
from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.sinks import FileSink, SinkContext
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import Writer

# How long a struck task waits for the one that Spark is to start beside it.
_TWIN_S_MAX = 40
_POLL_S = 0.01


@dataclass(frozen=True)
class Strike:
    """Where a run is struck, as its write's options tell it to every process. `files`: where Spark's own files lie."""

    fault: str
    batch: int
    folder: str
    files: str

    def options(self) -> dict[str, str]:
        """The write's options that say it."""
        return {f"strike{name}": str(value) for name, value in vars(self).items()}

    @classmethod
    def of(cls, options: Any) -> "Strike":
        """Reads it from the options."""
        fault, batch, folder, files = (options[f"strike{name}"] for name in ("fault", "batch", "folder", "files"))
        return cls(fault, int(batch), folder, files)

    @property
    def events(self) -> Events:
        """The run's own."""
        return Events(Path(self.folder) / "events.jsonl")


class Here:
    """One attempt of a task, and whether it is the one to be struck."""

    def __init__(self, strike: Strike, task: Task, token: str) -> None:
        self.strike, self.events = strike, strike.events
        self._where = {"batch": int(task.batch or -1), "partition": task.partition}
        self._who = {"attempt": task.attempt, "token": token}

    def say(self, kind: str, **fields: Any) -> None:
        """Writes an event of this attempt."""
        self.events.say(kind, **self._where, **self._who, **fields)

    def is_due(self, fault: str) -> bool:
        """The run's fault is this one, and strikes in this batch."""
        return (self.strike.fault, self.strike.batch) == (fault, self._where["batch"])

    def strikes(self, fault: str) -> bool:
        """This attempt is the one to be struck by a fault; says so, once in a run."""
        struck = self.is_due(fault) and self.events.first_time("strike")
        if struck:
            self.say("injected")
        return struck

    def wait_for_twin(self) -> None:
        """Until another attempt has written the same partition, or nobody has for long."""
        end = time.monotonic() + _TWIN_S_MAX
        while time.monotonic() < end:
            if any(e["token"] != self._who["token"] for e in of_kind(self.events.all(), "wrote", **self._where)):
                return
            time.sleep(_POLL_S)

    def wait_for_strike(self) -> None:
        """Until the struck attempt was struck."""
        end = time.monotonic() + _TWIN_S_MAX
        while not of_kind(self.events.all(), "injected") and time.monotonic() < end:
            time.sleep(_POLL_S)


def kill_executor() -> None:
    """SIGKILL for the JVM above this worker, and for the worker itself."""
    for parent in psutil.Process().parents():
        if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
            os.kill(parent.pid, signal.SIGKILL)
    kill_this_process()


def delete_shuffle_files(folder: Path) -> int:
    """Deletes all shuffle files below a folder; how many there were."""
    files = [path for path in folder.rglob("shuffle_*") if path.suffix in (".data", ".index")]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


class StruckWriter:
    """The client's writer, with the fault of its run around it."""

    def __init__(self, writer: Writer, strike: Strike, now: str | None, way: str) -> None:
        self.writer, self.strike, self.way = writer, strike, way
        self.now = now

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        """Writes one task's rows, tells of it, and fails where the fault is due."""
        here, rows = Here(self.strike, task, token), Counted(batches)
        message = self.writer.write(rows, token, task)
        here.say("wrote", rows=rows.rows)
        if rows.rows:
            self._strike(here)
        return message

    def _strike(self, here: Here) -> None:
        if here.strikes("task_error"):
            raise RuntimeError("matrix: a task is told to fail when it has written")
        if self.way != "claim":  # there the sink is struck, before the gateway is told
            strike_process(here)
        if here.strikes("lost_shuffle"):
            here.say("deleted", files=delete_shuffle_files(Path(self.strike.files)))
            here.wait_for_twin()
        elif here.is_due("lost_shuffle"):
            here.wait_for_strike()  # so that others are still to come that miss the files
        if here.strikes("speculation"):
            here.wait_for_twin()

    def commit(self, messages: Sequence[Any], batch_id: int | None) -> None:
        """Commits a batch, and blocks until it is killed where the driver's fault is due."""
        self.writer.commit(messages, batch_id)
        batch, events = int(self.now) if batch_id is None and self.now else batch_id, self.strike.events
        if (self.strike.fault, self.strike.batch) == ("driver_kill", batch) and events.first_time("strike"):
            events.say("blocked", batch=batch)
            block_until_killed()

    def abort(self, messages: Sequence[Any]) -> None:
        """Aborts a batch as the client's writer does."""
        self.writer.abort(messages)


def strike_process(here: Here) -> None:
    """Kills the worker or its executor, where that is due."""
    if here.strikes("worker_kill"):
        kill_this_process()
    if here.strikes("executor_kill"):
        kill_executor()


class StruckFiles(FileSink):
    """The client's sink of files, whose process dies when rows are durable and before the gateway is told."""

    def open(self, context: SinkContext) -> None:
        """Opens the files' sink for one attempt."""
        super().open(context)
        self._here = Here(Strike.of(context.options), task_identity.of_task(), context.token)

    def write(self, rows: pa.RecordBatch) -> None:
        """Writes rows, and dies where that is due."""
        super().write(rows)
        strike_process(self._here)


class StruckSource(OncegateSource):
    """The format under a name of its own."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that Spark's `format` takes."""
        return "oncegate_matrix"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        """Wraps the client's writer of a `df.write`."""
        return self._struck(super().writer, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """Wraps the client's writer of a stream."""
        return self._struck(super().streamWriter, schema, overwrite)

    def _struck(self, make: Callable[[Any, bool], Any], schema: Any, overwrite: bool) -> Any:
        strike, way = Strike.of(self.given), self.given.get("write", "staged")
        now = self.given.pop("strikenow", None)
        if way != "claim":
            self.given = {name: value for name, value in self.given.items() if not name.startswith("strike")}
        made = make(schema, overwrite)
        made.writer = StruckWriter(made.writer, strike, now, way)
        return made
