"""Sources, sinks and transformations that fail in a Spark worker, once each, at a place that a test names."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark import sinks
from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import Writer

WAIT_S = 60


def first_time(folder: str, name: str) -> bool:
    """Returns True to the first caller among all processes that share the folder."""
    try:
        (Path(folder) / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def wait_for(folder: str, name: str) -> None:
    end = time.monotonic() + WAIT_S
    while not (Path(folder) / name).exists():
        assert time.monotonic() < end, f"{name} never came"
        time.sleep(0.005)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class FaultyWriter:
    """The real writer, wrapped in the fault that the option `fault` names."""

    def __init__(self, writer: Writer, given: Mapping[str, str]) -> None:
        self.writer = writer
        self.fault = given["fault"]
        self.folder = given["faultfolder"]

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        if self.fault == "zombie":
            return self._zombie(batches, token, task)
        if self.fault == "late_zombie":
            return self._late_zombie(list(batches), token, task)
        if self.fault == "twin":
            return self._twin(list(batches), token, task)
        message = self.writer.write(batches, token, task)
        if self.fault == "kill_after_write" and first_time(self.folder, "killed"):
            die()
        if self.fault == "raise_thrice" and task.partition == 0 and task.attempt < 3:
            raise RuntimeError(f"attempt {task.attempt} was made to fail")
        return message

    def _zombie(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        """Makes partition 0 fail every time; partition 1 continues after the write was aborted."""
        if task.partition == 0:
            wait_for(self.folder, "zombie-waits")
            raise RuntimeError("partition 0 was made to fail")
        first_time(self.folder, "zombie-waits")
        wait_for(self.folder, "aborted")
        message = self.writer.write(batches, token, task)
        first_time(self.folder, "zombie-wrote")
        return message

    def _late_zombie(self, batches: list[pa.RecordBatch], token: str, task: Task) -> Any:
        """Makes partition 0 fail every time, once partition 1 has written half its rows. Partition 1 writes the other
        half after the batch was replayed."""
        if task.partition == 0:
            wait_for(self.folder, "half-written")
            raise RuntimeError("partition 0 was made to fail")
        rows = pa.Table.from_batches(batches).combine_chunks()
        half = rows.num_rows // 2
        self.writer.write(iter(rows[:half].to_batches()), token, task)
        first_time(self.folder, "half-written")
        wait_for(self.folder, "replayed")
        message = self.writer.write(iter(rows[half:].to_batches()), new_token(), task)
        first_time(self.folder, "zombie-wrote")
        return message

    def _twin(self, batches: list[pa.RecordBatch], token: str, task: Task) -> Any:
        """Runs two attempts at once and returns the message of one."""
        with ThreadPoolExecutor() as pool:
            twin = pool.submit(self.writer.write, iter(batches), new_token(), task)
            message = self.writer.write(iter(batches), token, task)
            twin.result()
        return message

    def commit(self, messages: Any, batch_id: int | None) -> None:
        if self.fault == "fail_before_commit" and first_time(self.folder, "failed"):
            raise RuntimeError("the driver was made to fail before its commit")
        self.writer.commit(messages, batch_id)
        if self.fault == "fail_after_commit" and first_time(self.folder, "failed"):
            raise RuntimeError("the driver was made to fail after its commit")

    def abort(self, messages: Any) -> None:
        self.writer.abort(messages)
        first_time(self.folder, "aborted")


class FaultySource(OncegateSource):
    """format("oncegate_faulty")"""

    @classmethod
    def name(cls) -> str:
        return "oncegate_faulty"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.faults = {name: self.given.pop(name) for name in ("fault", "faultfolder") if name in self.given}

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return self._faulty(super().writer(schema, overwrite))

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        return self._faulty(super().streamWriter(schema, overwrite))

    def _faulty(self, writer: Any) -> Any:
        writer.writer = FaultyWriter(writer.writer, self.faults)
        return writer


class OlderSource(OncegateSource):
    """format("oncegate_older"): an older client, which identifies a batch only by its entry in the offset log."""

    @classmethod
    def name(cls) -> str:
        return "oncegate_older"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        writer = super().streamWriter(schema, overwrite)
        if (read := writer.writer.read) is not None:
            writer.writer.read = replace(read, reads=None)
        return writer


class DyingFileSink(sinks.FileSink):
    """Writes its second batch durably and dies before it returns; once."""

    def open(self, context: sinks.SinkContext) -> None:
        super().open(context)
        self.folder = context.options["faultfolder"]
        self.writes = 0

    def write(self, rows: pa.RecordBatch) -> None:
        super().write(rows)
        self.writes += 1
        if self.writes == 2 and first_time(self.folder, "died"):
            die()


class RaisingFileSink(DyingFileSink):
    """Writes its second batch durably and raises; once."""

    def write(self, rows: pa.RecordBatch) -> None:
        sinks.FileSink.write(self, rows)
        self.writes += 1
        if self.writes == 2 and first_time(self.folder, "raised"):
            raise OSError("no space left on device")


class SlowFileSink(sinks.FileSink):
    """Takes longer than the lease over its first batch."""

    def open(self, context: sinks.SinkContext) -> None:
        super().open(context)
        self.pause_s = float(context.options["pauses"])

    def write(self, rows: pa.RecordBatch) -> None:
        time.sleep(self.pause_s)
        super().write(rows)


def dies_once_when(folder: str, wanted: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function for mapInArrow that kills the worker that reads the number `wanted`, once."""

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if wanted in batch.column("n").to_pylist() and first_time(folder, f"killed-{wanted}"):
                die()
            yield batch

    return through
