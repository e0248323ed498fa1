"""A job as a user submits it, which imports pyspark and the client and nothing else of this repository.

    one_job.py URL NAMESPACE FOLDER [REMOTE]

FOLDER/in holds Parquet files. They are written, staged, and then replayed, as after a driver that died before it logged
the batch as done. REMOTE: Spark Connect's address; without it spark-submit sets the master. If FOLDER/kill exists, the
files are written once, and an executor is killed when it has staged some of a task's rows.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import oncegate_spark
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol import codecs
from oncegate_spark.spark.datasource import OncegateSource


def executor() -> int:
    """Returns the pid of the JVM above this worker; the processes are worker, pyspark.daemon, executor."""
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
    found = int(daemon[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{found}/cmdline").read_bytes()
    return found


class DeadlyWriter:
    """The real writer. Its executor dies, once, when two chunks of a task are staged and more are to come."""

    def __init__(self, writer: Any, flag: str) -> None:
        self.writer = writer
        self.flag = Path(flag)

    def write(self, batches: Iterator[Any], token: str, task: Any) -> Any:
        codecs.CHUNK_BYTES = 1  # every batch is a chunk, staged before the next one is read
        return self.writer.write(self.dying(batches), token, task)

    def dying(self, batches: Iterator[Any]) -> Iterator[Any]:
        for number, batch in enumerate(batches):
            if number == 3 and self.flag.exists():
                self.flag.rename(self.flag.with_name("killed"))
                os.kill(executor(), signal.SIGKILL)
                signal.pause()
            yield batch

    def commit(self, messages: Any, batch_id: int) -> None:
        self.writer.commit(messages, batch_id)

    def abort(self, messages: Any) -> None:
        self.writer.abort(messages)


class DeadlySource(OncegateSource):
    """format("oncegate_deadly")"""

    @classmethod
    def name(cls) -> str:
        return "oncegate_deadly"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        flag = self.given.pop("flag")
        writer = super().streamWriter(schema, overwrite)
        writer.writer = DeadlyWriter(writer.writer, flag)
        return writer


def run(spark: Any, where: dict[str, str], folder: Path, source: str) -> None:
    """Writes the stream until its present input is consumed."""
    stream = spark.readStream.schema("id string, n bigint").parquet(f"{folder}/in")
    flag = {"flag": str(folder / "kill")} if source == DeadlySource.name() else {}
    query = (
        stream.writeStream.format(source)
        .options(**where, **flag, topic="t")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def tell(counts: Any) -> None:
    print(f"told: batch {counts.batch}, {counts.written} of {counts.rows} rows written", flush=True)


def main() -> None:
    url, namespace, path, *remote = sys.argv[1:]
    where, folder = {"url": url, "namespace": namespace}, Path(path)
    builder = SparkSession.builder.remote(remote[0]) if remote else SparkSession.builder
    spark = builder.getOrCreate()
    oncegate_spark.register(spark)
    try:
        oncegate_spark.observe(spark, on_batch=tell)
    except BadOption as error:
        print(error)
    if (folder / "kill").exists():
        spark.dataSource.register(DeadlySource)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
        run(spark, where, folder, DeadlySource.name())
    else:
        run(spark, where, folder, "oncegate")
        for name in ("0", ".0.crc"):
            (folder / "checkpoint/commits" / name).unlink()
        run(spark, where, folder, "oncegate")
    spark.stop()


if __name__ == "__main__":
    main()
