"""The format "oncegate_matrix": the product's own format and file sink, struck once by the fault of a run."""

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

# Longest wait of a struck task for the speculative copy that Spark starts.
_TWIN_S_MAX = 40
_POLL_S = 0.01


@dataclass(frozen=True)
class Strike:
    """The fault of a run, and where it strikes; passed to every process in write options. `files`: Spark's folder."""

    fault: str
    batch: int
    folder: str
    files: str

    def options(self) -> dict[str, str]:
        """Returns the strike as write options."""
        return {f"strike{name}": str(value) for name, value in vars(self).items()}

    @classmethod
    def of(cls, options: Any) -> "Strike":
        """Parses a strike from write options."""
        fault, batch, folder, files = (options[f"strike{name}"] for name in ("fault", "batch", "folder", "files"))
        return cls(fault, int(batch), folder, files)

    @property
    def events(self) -> Events:
        """Returns the run's events."""
        return Events(Path(self.folder) / "events.jsonl")


class Here:
    """A task attempt, which the run's fault may strike."""

    def __init__(self, strike: Strike, task: Task, token: str) -> None:
        self.strike, self.events = strike, strike.events
        self._where = {"batch": int(task.batch or -1), "partition": task.partition}
        self._who = {"attempt": task.attempt, "token": token}

    def say(self, kind: str, **fields: Any) -> None:
        """Records an event of this attempt."""
        self.events.say(kind, **self._where, **self._who, **fields)

    def is_due(self, fault: str) -> bool:
        """Returns whether the run's fault is this one, in this batch."""
        return (self.strike.fault, self.strike.batch) == (fault, self._where["batch"])

    def strikes(self, fault: str) -> bool:
        """Returns whether the fault strikes this attempt, and records it; true once per run."""
        struck = self.is_due(fault) and self.events.first_time("strike")
        if struck:
            self.say("injected")
        return struck

    def wait_for_twin(self) -> None:
        """Waits until another attempt has written the same partition, or until the timeout."""
        end = time.monotonic() + _TWIN_S_MAX
        while time.monotonic() < end:
            if any(e["token"] != self._who["token"] for e in of_kind(self.events.all(), "wrote", **self._where)):
                return
            time.sleep(_POLL_S)

    def wait_for_strike(self) -> None:
        """Waits until the fault has struck, or until the timeout."""
        end = time.monotonic() + _TWIN_S_MAX
        while not of_kind(self.events.all(), "injected") and time.monotonic() < end:
            time.sleep(_POLL_S)


def kill_executor() -> None:
    """Kills the JVM of this worker, then the worker itself, with SIGKILL."""
    for parent in psutil.Process().parents():
        if "CoarseGrainedExecutorBackend" in " ".join(parent.cmdline()):
            os.kill(parent.pid, signal.SIGKILL)
    kill_this_process()


def delete_shuffle_files(folder: Path) -> int:
    """Deletes all shuffle files below a folder; returns their number."""
    files = [path for path in folder.rglob("shuffle_*") if path.suffix in (".data", ".index")]
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)


class StruckWriter:
    """Wraps the client's writer, and injects the fault of its run."""

    def __init__(self, writer: Writer, strike: Strike, now: str | None, way: str) -> None:
        self.writer, self.strike, self.way = writer, strike, way
        self.now = now

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        """Writes one task's rows, records it, and fails if the fault is due."""
        here, rows = Here(self.strike, task, token), Counted(batches)
        message = self.writer.write(rows, token, task)
        here.say("wrote", rows=rows.rows)
        if rows.rows:
            self._strike(here)
        return message

    def _strike(self, here: Here) -> None:
        if here.strikes("task_error"):
            raise RuntimeError("matrix: a task is told to fail when it has written")
        if self.way != "claim":  # for claim the sink is struck, before the completion
            strike_process(here)
        if here.strikes("lost_shuffle"):
            here.say("deleted", files=delete_shuffle_files(Path(self.strike.files)))
            here.wait_for_twin()
        elif here.is_due("lost_shuffle"):
            here.wait_for_strike()  # so that later tasks miss the deleted files
        if here.strikes("speculation"):
            here.wait_for_twin()

    def commit(self, messages: Sequence[Any], batch_id: int | None) -> None:
        """Commits a batch; blocks until killed if the driver's fault is due."""
        self.writer.commit(messages, batch_id)
        batch, events = int(self.now) if batch_id is None and self.now else batch_id, self.strike.events
        if (self.strike.fault, self.strike.batch) == ("driver_kill", batch) and events.first_time("strike"):
            events.say("blocked", batch=batch)
            block_until_killed()

    def abort(self, messages: Sequence[Any]) -> None:
        self.writer.abort(messages)


def strike_process(here: Here) -> None:
    """Kills the worker or its executor if that fault is due."""
    if here.strikes("worker_kill"):
        kill_this_process()
    if here.strikes("executor_kill"):
        kill_executor()


class StruckFiles(FileSink):
    """The client's file sink; its process dies after rows are durable and before they are completed."""

    def open(self, context: SinkContext) -> None:
        super().open(context)
        self._here = Here(Strike.of(context.options), task_identity.of_task(), context.token)

    def write(self, rows: pa.RecordBatch) -> None:
        """Writes rows, then dies if the fault is due."""
        super().write(rows)
        strike_process(self._here)


class StruckSource(OncegateSource):
    """The product's format under its own name, with struck writers."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that Spark's `format` takes."""
        return "oncegate_matrix"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._struck(super().writer, schema, overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return self._struck(super().streamWriter, schema, overwrite)

    def _struck(self, make: Callable[[Any, bool], Any], schema: Any, overwrite: bool) -> Any:
        strike, way = Strike.of(self.given), self.given.get("write", "staged")
        now = self.given.pop("strikenow", None)
        if way != "claim":
            self.given = {name: value for name, value in self.given.items() if not name.startswith("strike")}
        made = make(schema, overwrite)
        made.writer = StruckWriter(made.writer, strike, now, way)
        return made
