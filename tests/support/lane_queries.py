"""A query by sequence without Spark: its tasks, driver, checkpoint and commit log, written by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark import acks
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import writer_of
from tests.support.lane_rows import LANES
from tests.support.spark_writes import pickled


class Query:
    """The driver of a query: its checkpoint, its run, and its batches so far."""

    def __init__(self, gateway: Gateway, folder: Path, run: str = "run-1", **more: str) -> None:
        self.gateway, self.folder, self.run = gateway, folder, run
        options = {"url": gateway.url, "namespace": gateway.namespace, "checkpointLocation": str(folder)}
        self.options = Options.read({**options, **(more or LANES)})
        self.found: BatchInput | None = None

    def write(self, batch: int, *batches: pa.RecordBatch) -> Any:
        """Runs a task and returns its message."""
        task = Task(query="q", batch=str(batch), run=self.run)
        writer: Any = pickled(writer_of(self.options, self.found or BatchInput(batch, "aa", None)))
        return pickled(writer.write(iter(batches), new_token(), task))

    def commit(self, batch: int, *messages: Any) -> None:
        """Commits a batch with a new writer, as Spark does in another process."""
        writer: Any = writer_of(self.options, None)
        writer.commit(messages, batch)

    def log(self, batch: int) -> None:
        """Writes Spark's entry in the commit log."""
        (self.folder / "commits").mkdir(exist_ok=True)
        (self.folder / "commits" / str(batch)).write_text("v1")

    def begin(self) -> int:
        """Performs the first step of the next batch: sends the pending acks."""
        return acks.send(str(self.folder))

    def standing(self, name: str = "a") -> Any:
        explained = self.gateway.producer(self.producer(name), driver="q").explain()
        return explained["watermark"], explained["done"]

    def producer(self, name: str) -> str:
        """Returns the gateway's name for the lane that the rows call `name`."""
        return f"{name}@{self.options.target}"

    @property
    def noted(self) -> int:
        folder = self.folder / "oncegate" / "acks"
        return len(list(folder.glob("*"))) if folder.exists() else 0
