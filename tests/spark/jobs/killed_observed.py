"""An observed streaming job, killed with its driver when batch 1 has written some of its rows and stored its counts.

The kill comes after the counts of batch 0 were reported.

    python -m tests.spark.jobs.killed_observed URL NAMESPACE FOLDER

FOLDER/in holds a file for each batch; FOLDER/reported lists the reported batches, one a line.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from oncegate_spark import BatchCounts, observe
from tests.spark.jobs.job import SCHEMA
from tests.spark.jobs.killed_lanes import DeadlySource


def main() -> None:
    url, namespace, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    processes, told = folder / "processes", folder / "reported"
    processes.write_text(f"{spark._jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    spark.dataSource.register(DeadlySource)

    def tell(counts: BatchCounts) -> None:
        with told.open("a") as file:
            file.write(f"batch {counts.batch}: {counts.written} of {counts.rows}\n")

    observe(spark, on_batch=tell)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1").parquet(str(folder / "in"))
    writer = rows.where("n < 52").writeStream.format(DeadlySource.name())
    options = {"url": url, "namespace": namespace, "topic": "t", "write": "ids", "idCol": "id"}
    writer = writer.options(**options, processes=str(processes), after=str(told))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main()
