"""A job that is killed, with its driver, after it has claimed its ids and before it writes.

    python -m tests.spark.jobs.killed_dedup URL NAMESPACE JOB_KEY FILE

FILE: receives the number of rows that the job was granted.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from oncegate_spark import dedup


def kills(jvm: int, driver: int, took: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        Path(took).write_text(str(rows))
        os.kill(driver, signal.SIGKILL)
        os.kill(jvm, signal.SIGKILL)
        yield from ()

    return through


def main() -> None:
    url, namespace, job_key, took = sys.argv[1:]
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    rows = spark.range(40).selectExpr("concat('id-', id) id", "id n").repartition(1)
    taken = dedup(rows, "id", job_key=job_key, gateway=url, namespace=namespace).coalesce(1)
    taken.mapInArrow(kills(jvm, os.getpid(), took), taken.schema).collect()


if __name__ == "__main__":
    main()
