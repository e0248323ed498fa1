"""Writes each row of a stream to a Kafka topic once, as a record with key and value, even if Spark repeats a batch.

    oncegate serve --ledger "kafka://localhost:9092/try?bare_key=yes&replication=1&min_insync=1"  # beside `make kafka`
    python examples/spark_kafka.py --folder /tmp/orders --topic orders

The gateway keeps its ledger in the cluster of the topic, which must exist, and writes rows and ledger entries in one
transaction. Consumers of the topic need `isolation.level=read_committed`. The folder holds the input and the query's
checkpoint. Requires the environment of `make setup`, and Java 17 or 21.
"""

import argparse
import json
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import oncegate_spark
from oncegate_spark import Gateway

NAMESPACE = "shop"
FILES = (
    [{"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}],
    [{"order": "a-3", "cents": 9900}],
)


def run(spark: SparkSession, url: str, folder: Path, topic: str) -> None:
    """Writes the delivered rows that are not written yet; each batch is in the topic once, or not at all."""
    records = delivered(spark, folder).selectExpr("order AS key", "to_json(struct(*)) AS value")
    query = (
        records.writeStream.format("oncegate")  # was: format("kafka")
        .option("url", url)
        .option("namespace", NAMESPACE)
        .option("topic", topic)
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
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway, with its ledger on Kafka")
    parser.add_argument("--folder", required=True, type=Path, help="for the input and the checkpoint")
    parser.add_argument("--topic", default="orders", help="the Kafka topic")
    given = parser.parse_args()
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    oncegate_spark.register(spark)
    run(spark, given.url, given.folder, given.topic)
    spark.stop()


if __name__ == "__main__":
    main()
