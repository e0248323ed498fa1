"""The Spark jobs of `bench.cases.spark`."""

import os
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import oncegate_spark
from bench.load.server import Served

# Namespace of the warm-up, so that its ids are known nowhere else.
WARM = "warm"
_STATE = "org.apache.spark.sql.execution.streaming.state"
_HEAP, _ROCKS = f"{_STATE}.HDFSBackedStateStoreProvider", f"{_STATE}.RocksDBStateStoreProvider"
# Each way to deduplicate a stream: Spark's state store (None: the gateway deduplicates) and the method.
STORES: dict[str, tuple[str | None, str]] = {
    "staged": (None, "staged"),
    "ids": (None, "ids"),
    "dropDuplicatesWithinWatermark, heap": (_HEAP, "dropDuplicatesWithinWatermark"),
    "dropDuplicatesWithinWatermark, RocksDB": (_ROCKS, "dropDuplicatesWithinWatermark"),
    "dropDuplicates, heap": (_HEAP, "dropDuplicates"),
}


@dataclass(frozen=True)
class Dedup:
    """A deduplication job: one way, over one stream of Parquet files."""

    name: str
    store: tuple[str | None, str]
    stream: Path
    folder: Path
    rows: int


def session(folder: Path, jars: Sequence[Path] = ()) -> SparkSession:
    """Starts a local Spark on all cores, with enough heap for the state of ten million ids. `jars`: added jars."""
    cores = len(os.sched_getaffinity(0))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "spark"),
    }
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    builder = SparkSession.builder.master(f"local[{cores}]").appName("oncegate bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    oncegate_spark.register(spark)
    return spark


def _uuid(number: Any) -> Any:
    """Returns a 36-character id for each number."""
    digits = F.md5(number.cast("string"))
    cuts = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
    return F.concat_ws("-", *(F.substring(digits, at, count) for at, count in cuts))


def batch_frame(spark: SparkSession, rows: int) -> Any:
    """Returns keys of 36 bytes and payloads of 100 bytes, cached in Spark."""
    number = F.col("id")
    payload = F.substring(F.repeat(F.md5(number.cast("string")), 4), 1, 100)
    frame = spark.range(rows).select(_uuid(number).alias("key"), payload.alias("payload")).persist()
    frame.count()
    return frame


def write_batch(frame: Any, way: str, served: Served, folder: Path) -> None:
    """Writes the frame once; `way`: oncegate (staged), parquet or noop."""
    if way == "noop":
        frame.write.format("noop").mode("overwrite").save()
    elif way == "parquet":
        path = folder / f"parquet-{uuid.uuid4().hex}"
        frame.write.parquet(str(path))
        shutil.rmtree(path)
    else:
        options = {"txnAppId": "bench", "txnVersion": uuid.uuid4().hex, "url": f"http://127.0.0.1:{served.port}"}
        frame.write.format("oncegate").mode("append").options(**options).save("batches")


def make_stream(spark: SparkSession, folder: Path, rows: int, files: int) -> Path:
    """Writes files of (key, at, value) with `rows` rows in total; every tenth has the key of an earlier row."""
    number = F.col("id")
    # An odd number is not a multiple of ten, so each of these keys is the original key of another row.
    key = F.when(number % 10 == 0, F.floor(number / 2).cast("long").bitwiseOR(F.lit(1))).otherwise(number)
    at = F.timestamp_micros(F.lit(1_700_000_000_000_000) + number)
    frame = spark.range(rows).select(_uuid(key).alias("key"), at.alias("at"), number.alias("value"))
    frame.repartitionByRange(files, "value").write.parquet(str(folder))
    return folder


def deduplicate(spark: SparkSession, job: Dedup, served: Served) -> None:
    """Runs the stream, one file per micro-batch, until all of it is written."""
    store, way = job.store
    schema = spark.read.parquet(str(job.stream)).schema
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(job.stream))
    checkpoint = job.folder / f"checkpoint-{job.name.replace(' ', '-')}"
    if store is None:
        writer = _through_gateway(frame, way, job, served)
    else:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", store)
        unique = getattr(frame.withWatermark("at", "1 hour"), way)(["key"])
        writer = unique.writeStream.format("parquet").option("path", str(job.folder / f"out-{job.name}"))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def _through_gateway(frame: Any, way: str, job: Dedup, served: Served) -> Any:
    """Returns the stream's writer to the topic named after the job."""
    options = {"url": f"http://127.0.0.1:{served.port}", "topic": job.name, "write": way}
    options["namespace"] = WARM if job.name == WARM else "default"
    if way == "ids":
        options["idCol"] = "key"
    return frame.writeStream.format("oncegate").options(**options)


def timed(rows: int, work: Callable[..., None], *arguments: Any) -> dict[str, float]:
    """Returns the rows per second of `work(*arguments)`."""
    start = time.perf_counter()
    work(*arguments)
    return {"rate": rows / (time.perf_counter() - start)}
