"""The format "oncegate_demo": the product's own format, with a wrapped writer that injects faults.

Nothing of the product is replaced: the wrapper forwards every call, and fails according to the table of faults.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from demo.hooks import BATCHES_BEFORE_THE_KILL, Here, block_until_killed, events, kill_this_process, strikes_batch
from oncegate_spark.spark.datasource import OncegateSource


class DemoSource(OncegateSource):
    """The product's format under its own name, with a struck writer."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that Spark's `format` takes."""
        return "oncegate_demo"

    def streamWriter(self, schema: Any, overwrite: bool) -> "StruckWriter":
        return StruckWriter(super().streamWriter(schema, overwrite), self.given.get("write", "staged"))


class StruckWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Injects task_error, driver_kill, and worker_kill unless the user's sink writes."""

    def __init__(self, inner: DataSourceStreamArrowWriter, write: str) -> None:
        self.inner = inner
        self.way = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Writes one task's rows, records it, and dies or raises if a fault is due."""
        here = Here()
        here.say("attempt")
        counted = Counted(iterator)
        if self.way != "claim" and here.strikes("worker_kill"):
            # The two batches are written once the inner write() returns; its commit message is never sent.
            self.inner.write(islice(counted, BATCHES_BEFORE_THE_KILL))
            here.injected("worker_kill", rows=counted.rows)
            kill_this_process()
        message = self.inner.write(counted)
        here.say("wrote", rows=counted.rows)
        if here.strikes("task_error"):
            here.injected("task_error", rows=counted.rows)
            raise RuntimeError("demo: task_error, at the end of write()")
        return message

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Commits a batch; blocks until killed if the driver's fault is due."""
        event_texts = events()
        struck = strikes_batch("driver_kill", batchId) and event_texts.first_time("driver_kill")
        if struck and self.way != "staged":  # other ways make no call here: only Spark's own commit is lost
            event_texts.say("blocked", batch=batchId, tasks=len(messages))
            block_until_killed()
        self.inner.commit(messages, batchId)
        if struck:
            event_texts.say("blocked", batch=batchId, tasks=len(messages))
            block_until_killed()

    def abort(self, messages: list[Any], batchId: int) -> None:
        self.inner.abort(messages, batchId)


class Counted:
    """An iterator of batches that counts their rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
