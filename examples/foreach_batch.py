"""Writes each batch of a stream twice inside foreachBatch, whole and as a sum; each write takes effect once.

    oncegate serve                            # in another terminal
    python examples/foreach_batch.py --folder /tmp/orders

The folder holds the input and the query's checkpoint. If a run dies between the two writes, the next run repeats the
batch, and the gateway drops the write that exists. Requires the environment of `make setup`, and Java 17 or 21.
"""

import argparse
import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import oncegate_spark
from oncegate_spark import Gateway

NAMESPACE, ORDERS, SUMS = "shop", "orders", "sums"
FILES = (
    [{"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}],
    [{"order": "a-3", "cents": 9900}],
)


def write(df: DataFrame, url: str, topic: str) -> None:
    """Writes the rows of a batch, identified by the query and the batch's number: a repeat publishes nothing."""
    options = {"url": url, "namespace": NAMESPACE}
    df.write.format("oncegate").mode("append").options(**options).save(topic)


def run(spark: SparkSession, url: str, folder: Path) -> None:
    """Writes the delivered rows that are not written yet."""

    def each(df: DataFrame, batch_id: int) -> None:
        write(df, url, ORDERS)
        write(df.agg(F.count("*").alias("orders"), F.sum("cents").alias("cents")), url, SUMS)

    query = (
        delivered(spark, folder)
        .writeStream.foreachBatch(oncegate_spark.foreach_batch(each))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def delivered(spark: SparkSession, folder: Path) -> DataFrame:
    """Returns a stream of the shop's files, one per micro-batch."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(FILES):
        file = folder / "in" / f"{number}.json"
        if not file.exists():
            file.write_text("\n".join(map(json.dumps, rows)))
    files = spark.readStream.schema("order string, cents long").option("maxFilesPerTrigger", "1")
    return files.json(str(folder / "in"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway")
    parser.add_argument("--folder", required=True, type=Path, help="for the input and the checkpoint")
    given = parser.parse_args()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    oncegate_spark.register(spark)
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
        run(spark, given.url, given.folder)
        counts = [gateway.read(topic).num_rows for topic in (ORDERS, SUMS)]
    print(f"{counts[0]} orders, {counts[1]} sums in the topics")
    spark.stop()


if __name__ == "__main__":
    main()
