"""A streaming job by lane and sequence, killed with its driver between the sink's commit and Spark's commit log.

    python -m tests.spark.jobs.killed_lanes URL NAMESPACE FOLDER

Batch 0 completes, batch 1 does not.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from oncegate_spark import assign_sequences
from oncegate_spark.spark import assign_sequences as sequencing
from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import Writer
from tests.spark.jobs.stub_kafka import NAME, StubKafka, hold

DEADLY = 1
# Another thread of the driver notifies listeners of batch 0, on a busy machine long after batch 1 has begun.
WAIT_S = 120


class DeadlyWriter:
    """The real writer. After the commit of batch 1, and once the file `after` exists, it kills the JVM and the driver's
    Python."""

    def __init__(self, writer: Writer, processes: str, after: str | None) -> None:
        self.writer = writer
        self.processes = Path(processes)
        self.after = Path(after) if after else self.processes

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        return self.writer.write(batches, token, task)

    def commit(self, messages: Any, batch_id: int | None) -> None:
        self.writer.commit(messages, batch_id)
        if batch_id == DEADLY:
            end = time.monotonic() + WAIT_S
            while not self.after.exists() and time.monotonic() < end:
                time.sleep(0.02)
            for process in self.processes.read_text().split():
                os.kill(int(process), signal.SIGKILL)
            signal.pause()

    def abort(self, messages: Any) -> None:
        self.writer.abort(messages)


class DeadlySource(OncegateSource):
    """format("oncegate_deadly")"""

    @classmethod
    def name(cls) -> str:
        return "oncegate_deadly"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        processes, after = self.given.pop("processes"), self.given.pop("after", None)
        writer = super().streamWriter(schema, overwrite)
        writer.writer = DeadlyWriter(writer.writer, processes, after)  # type: ignore[assignment]
        return writer


def main() -> None:
    url, namespace, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    processes = folder / "processes"
    processes.write_text(f"{spark._jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    for source in (StubKafka, DeadlySource):
        spark.dataSource.register(source)
    sequencing.SOURCE = NAME
    for rows in ({"p0": 40, "p1": 25}, {"p0": 60, "p1": 25}):
        hold(folder / "log.json", **rows)
        stream = spark.readStream.format(NAME).option("log", str(folder / "log.json")).load()
        writer = assign_sequences(stream).writeStream.format(DeadlySource.name()).trigger(availableNow=True)
        lanes = {"producerCol": "oncegate_producer", "sequenceCol": "oncegate_sequence", "write": "ids", "topic": "t"}
        writer = writer.options(url=url, namespace=namespace, processes=str(processes), **lanes)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main()
