"""Runs two chained queries in one driver, files → topic a → topic b, with the faults below; a separate, killable
program.

    python -m tests.spark.jobs.chain URL FOLDER

The program ends when topic b holds all rows of the files. FOLDER/in: the files; FOLDER/faults: the faults that struck.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from demo.hooks import block_until_killed
from oncegate_spark.spark.datasource import OncegateSource
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers import Writer
from tests.spark.jobs.faults import die, first_time, wait_for

# Each fault strikes once, in this batch of the query that writes this topic.
TASK_RAISES, WORKER_DIES, GATEWAY_DIES, DRIVER_DIES = ("a", "1"), ("b", "1"), ("a", "3"), ("b", "2")


class StruckWriter:
    """The real writer, wrapped in the faults."""

    def __init__(self, writer: Writer, topic: str, folder: str) -> None:
        self.writer = writer
        self.topic = topic
        self.folder = folder

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> Any:
        here = (self.topic, task.batch)
        if here == GATEWAY_DIES and first_time(self.folder, "gateway-to-kill"):
            wait_for(self.folder, "gateway-is-dead")
        message = self.writer.write(batches, token, task)
        if here == TASK_RAISES and first_time(self.folder, "task-raised"):
            raise RuntimeError("made to fail when all is staged")
        if here == WORKER_DIES and first_time(self.folder, "worker-died"):
            die()
        return message

    def commit(self, messages: Any, batch_id: int | None) -> None:
        self.writer.commit(messages, batch_id)
        if (self.topic, str(batch_id)) == DRIVER_DIES and first_time(self.folder, "driver-to-kill"):
            block_until_killed()

    def abort(self, messages: Any) -> None:
        self.writer.abort(messages)


class StruckSource(OncegateSource):
    """format("oncegate_struck")"""

    @classmethod
    def name(cls) -> str:
        return "oncegate_struck"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        faults = self.given.pop("faultfolder")
        writer = super().streamWriter(schema, overwrite)
        writer.writer = StruckWriter(writer.writer, self.given["topic"], faults)  # type: ignore[assignment]
        return writer


class Chain:
    """`first` writes the rows of the files; `second` writes ten times each number that `first` wrote."""

    def __init__(self, spark: Any, url: str, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.options = {"url": url, "timeoutMs": "60000"}

    def first(self) -> Any:
        files = self.spark.readStream.schema("id string, n bigint").option("maxFilesPerTrigger", "1")
        return self._written(files.parquet(str(self.folder / "in")).repartition(2), "a")

    def second(self) -> Any:
        topic = self.spark.readStream.format("oncegate").options(**self.options, maxRowsPerBatch="70").load("a")
        return self._written(topic.selectExpr("id", "n * 10 n").repartition(2), "b")

    def replayed(self, topic: str) -> None:
        """Deletes the last entry of the commit log, as if the driver had died before it wrote the entry."""
        commits = self.folder / topic / "commits"
        last = max(int(file.name) for file in commits.iterdir() if file.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (commits / name).unlink()

    def _written(self, stream: Any, topic: str) -> Any:
        writer = stream.writeStream.format(StruckSource.name()).options(**self.options, topic=topic)
        writer = writer.option("faultFolder", str(self.folder / "faults"))
        return writer.option("checkpointLocation", str(self.folder / topic)).trigger(availableNow=True).start()


def run(chain: Chain) -> None:
    for query in [chain.first(), chain.second()]:  # Side by side: `second` reads while `first` writes.
        query.awaitTermination()
    chain.second().awaitTermination()
    for topic in ("a", "b"):
        chain.replayed(topic)
    for query in [chain.first(), chain.second()]:
        query.awaitTermination()


def main() -> None:
    from pyspark.sql import SparkSession

    url, folder = sys.argv[1], Path(sys.argv[2])
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    (folder / "jvm").write_text(str(spark._jvm.java.lang.ProcessHandle.current().pid()))
    spark.dataSource.register(StruckSource)
    try:
        run(Chain(spark, url, folder))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
