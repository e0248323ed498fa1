"""A driver and its tasks without Spark, over a real gateway, for tests of the ways to write."""

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from oncegate_spark import Gateway
from oncegate_spark.protocol.effort import new_token
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import writer_of

READ = BatchInput(4, "0a" * 32, "0b" * 32)


class Write:
    """A driver and its tasks. Each `task` is one attempt; its message is pickled as Spark does."""

    def __init__(self, gateway: Gateway, read: BatchInput | None = READ, **more: str) -> None:
        self.options = Options.read({"url": gateway.url, "namespace": gateway.namespace, "topic": "t", **more})
        self.writer: Any = writer_of(self.options, read)

    def task(self, *numbers: int, run: str | None = "r" * 8, batch: str | None = "4", **more: Any) -> Any:
        task = Task(query="q" if batch else None, batch=batch, run=run, **more)
        return pickled(pickled(self.writer).write(batches(*numbers), new_token(), task))


def pickled(thing: Any) -> Any:
    """Returns a pickled copy, as Spark makes of writers and messages."""
    return pickle.loads(pickle.dumps(thing))


def batches(*numbers: int) -> Iterator[pa.RecordBatch]:
    for number in numbers:
        yield pa.RecordBatch.from_pydict({"id": [f"id-{number}"], "n": pa.array([number], pa.int64())})


def published(gateway: Gateway) -> Counter[int]:
    table = gateway.read("t")
    return Counter() if table is None else Counter(table.column("n").to_pylist())
