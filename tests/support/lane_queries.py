"""A query by sequence without Spark: its tasks, its driver, its checkpoint and commit log, by hand."""

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
from tests.support.spark_writes import carried


class Query:
    """A query's driver by hand: its checkpoint, its run, and the batches it has come to."""

    def __init__(self, gateway: Gateway, folder: Path, run: str = "run-1", **more: str) -> None:
        self.gateway, self.folder, self.run = gateway, folder, run
        given = {"url": gateway.url, "namespace": gateway.namespace, "checkpointLocation": str(folder)}
        self.options = Options.read({**given, **(more or LANES)})
        self.found: BatchInput | None = None

    def write(self, batch: int, *batches: pa.RecordBatch) -> Any:
        """A task's message."""
        task = Task(query="q", batch=str(batch), run=self.run)
        writer: Any = carried(writer_of(self.options, self.found or BatchInput(batch, "aa", None)))
        return carried(writer.write(iter(batches), new_token(), task))

    def commit(self, batch: int, *messages: Any) -> None:
        """The sink's commit, in another process of Spark's: on a writer of its own."""
        writer: Any = writer_of(self.options, None)
        writer.commit(messages, batch)

    def log(self, batch: int) -> None:
        """Spark's entry in the commit log."""
        (self.folder / "commits").mkdir(exist_ok=True)
        (self.folder / "commits" / str(batch)).write_text("v1")

    def begin(self) -> int:
        """What the next batch does first."""
        return acks.send(str(self.folder))

    def standing(self, name: str = "a") -> Any:
        known = self.gateway.producer(self.producer(name), driver="q").explain()
        return known["watermark"], known["done"]

    def producer(self, name: str) -> str:
        """What the gateway calls the lane that rows call by this name."""
        return f"{name}@{self.options.target}"

    @property
    def noted(self) -> int:
        folder = self.folder / "oncegate" / "acks"
        return len(list(folder.glob("*"))) if folder.exists() else 0
