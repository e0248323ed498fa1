"""format("oncegate_demo"): the product's own format, its writer wrapped so that it can be struck.

Nothing of the product is replaced: the wrapper hands everything on, and fails where the table of faults says so.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from demo.hooks import BATCHES_BEFORE_THE_KILL, Here, block_until_killed, events, kill_this_process, strikes_batch
from oncegate_spark.spark.datasource import OncegateSource


class DemoSource(OncegateSource):
    """The format under a name of its own."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that Spark's `format` takes."""
        return "oncegate_demo"

    def streamWriter(self, schema: Any, overwrite: bool) -> "StruckWriter":
        """Wraps the client's writer in the one that is struck."""
        return StruckWriter(super().streamWriter(schema, overwrite), self.given.get("write", "staged"))


class StruckWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """task_error, worker_kill (where no sink of the user's writes) and driver_kill."""

    def __init__(self, inner: DataSourceStreamArrowWriter, write: str) -> None:
        self.inner = inner
        self.way = write

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Writes one task's rows, tells of it, and dies or raises where a fault is due."""
        here = Here()
        here.say("attempt")
        counted = Counted(iterator)
        if self.way != "claim" and here.strikes("worker_kill"):
            # All that is written of these two is written when the inner write() returns; its message is never sent.
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
        """Commits a batch, and blocks until it is killed where the driver's fault is due."""
        event_texts = events()
        struck = strikes_batch("driver_kill", batchId) and event_texts.first_time("driver_kill")
        if struck and self.way != "staged":  # these have no call of their own here: Spark's knowledge is what is lost
            event_texts.say("blocked", batch=batchId, tasks=len(messages))
            block_until_killed()
        self.inner.commit(messages, batchId)
        if struck:
            event_texts.say("blocked", batch=batchId, tasks=len(messages))
            block_until_killed()

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Aborts a batch as the client's writer does."""
        self.inner.abort(messages, batchId)


class Counted:
    """An iterator of batches that knows how many rows went by."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
