"""A streaming job over files, with methods that make Spark replay, restore and fail."""

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from oncegate_spark import Gateway
from oncegate_spark.errors import NotFound
from oncegate_spark.spark import sinks

SCHEMA = "id string, n bigint"


class Job:
    """One input folder, one checkpoint and one topic; every micro-batch reads one file.

    `location`: the checkpoint's name for Spark, if it differs from the folder's.
    """

    def __init__(self, spark: Any, gateway: Gateway, folder: Path, log: Path) -> None:
        self.spark = spark
        self.gateway = gateway
        self.folder = folder
        self.input = folder / "in"
        self.checkpoint = folder / "checkpoint"
        self.location: str | None = None
        self.out = folder / "out"
        self._log = log
        self._log_start = log.stat().st_size
        self._files = 0
        self.input.mkdir(parents=True)

    def add_file(self, *numbers: int) -> None:
        """Adds the input of one more batch: a row for each number, whose id is its text."""
        path = self.input / f"{self._files:04}-{uuid.uuid4().hex}.parquet"
        pq.write_table(pa.table({"id": [f"id-{n}" for n in numbers], "n": pa.array(numbers, pa.int64())}), path)
        os.utime(path, (1_600_000_000 + self._files, 1_600_000_000 + self._files))
        self._files += 1

    def stream(self) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
        return reader.parquet(str(self.input))

    def options(self, **more: str) -> dict[str, str]:
        return {
            "url": self.gateway.url,
            "namespace": self.gateway.namespace,
            "topic": "t",
            "timeoutMs": "20000",
            **more,
        }

    def claim_options(self, **more: str) -> dict[str, str]:
        files = {"write": "claim", "idCol": "id", "sink": "oncegate_spark.spark.sinks:files", "sinkPath": str(self.out)}
        return self.options(**{**files, "leaseMs": "1000", **more})

    def run(self, stream: Any, source: str = "oncegate", **options: str) -> None:
        """Writes the stream to the gateway until its present input is consumed. Raises the error that stopped the
        query."""
        given = options or self.options()
        self.drain(stream.writeStream.format(source).options(**given))

    def run_each(self, stream: Any, fn: Callable[[Any, int], None]) -> None:
        """Does the same as `run`, through foreachBatch."""
        self.drain(stream.writeStream.foreachBatch(fn))

    def drain(self, writer: Any) -> None:
        query = writer.option("checkpointLocation", self.location or str(self.checkpoint))
        query = query.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def write(self, df: Any, source: str = "oncegate", **options: str) -> None:
        df.write.format(source).mode("append").options(**options).save()

    def activate(self) -> None:
        """Makes the session active in this thread, without which Spark finds no Python data source in a new thread."""
        self.spark._jvm.SparkSession.setActiveSession(self.spark._jsparkSession)

    def rows(self, *numbers: int, partitions: int = 2) -> Any:
        return self.spark.createDataFrame([(f"id-{n}", n) for n in numbers], SCHEMA).repartition(partitions)

    def published(self, topic: str = "t") -> Counter[int]:
        """Counts each number in the topic; empty before the first write has created the topic."""
        try:
            table = self.gateway.read(topic)
        except NotFound:
            return Counter()
        return Counter() if table is None else Counter(table.column("n").to_pylist())

    def written(self, folder: Path | None = None) -> Counter[int]:
        """Counts each number in the file sink's folder."""
        table = sinks.read_files(folder or self.out)
        return Counter() if table is None else Counter(table.column("n").to_pylist())

    def counters(self) -> dict[str, int]:
        return dict(self.gateway.describe()["counters"])

    def batches(self) -> list[int]:
        """Returns the batches that Spark's commit log lists."""
        folder = self.checkpoint / "commits"
        return sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit()) if folder.exists() else []

    def forget_last_commit(self) -> int:
        """Deletes the last entry of the commit log, as if the driver had died before writing it, so that the batch is
        replayed."""
        last = self.batches()[-1]
        for name in (f"{last}", f".{last}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=name.startswith("."))
        return last

    def save_checkpoint(self) -> Path:
        copy = self.folder / f"saved-{uuid.uuid4().hex}"
        shutil.copytree(self.checkpoint, copy)
        return copy

    def restore_checkpoint(self, copy: Path) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree(copy, self.checkpoint)

    def log(self) -> str:
        """Returns the output of Spark and its Python processes since this job was created."""
        with self._log.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")
