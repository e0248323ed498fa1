"""A stream's rows reach a Kafka topic once, as records with key and value, also where Spark repeats a batch.

    oncegate serve --ledger "kafka://localhost:9092/try?bare_key=yes&replication=1&min_insync=1"  # beside `make kafka`
    python examples/spark_kafka.py --folder /tmp/orders --topic orders

The gateway keeps its ledger in the cluster that holds the topic, which has to be there, and writes the rows and what
it knows of them in one transaction. Readers of the topic take `isolation.level=read_committed`. The folder keeps the
input and the query's checkpoint. It needs the environment that `make setup` makes, and Java 17 or 21.
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
    """Write what has been delivered and was not written; each batch is in the topic once, or not at all."""
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
    """A stream of the shop's files, one in each micro-batch."""
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
        gateway.create_namespace()  # no effect where it is there already
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    oncegate_spark.register(spark)
    run(spark, given.url, given.folder, given.topic)
    spark.stop()


if __name__ == "__main__":
    main()
