"""Writes orders that a shop delivers twice to the topic `orders` once, whatever fails and however often this is run.

    oncegate serve                            # in another terminal
    python examples/spark_quickstart.py

Requires the environment of `make setup`, and Java 17 or 21.
"""

import argparse
import json
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import oncegate_spark
from oncegate_spark import Gateway

NAMESPACE, TOPIC = "shop", "orders"
# The shop's deliveries: order a-2 is in both files.
FILES = (
    [{"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}],
    [{"order": "a-2", "cents": 350}, {"order": "a-3", "cents": 9900}],
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway")
    url = parser.parse_args().url
    with Gateway(url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    oncegate_spark.register(spark)
    with tempfile.TemporaryDirectory() as folder:
        write(delivered(spark, Path(folder)), url, checkpoint=f"{folder}/checkpoint")
    orders = spark.read.format("oncegate").options(url=url, namespace=NAMESPACE).load(TOPIC)
    print(f"{sum(map(len, FILES))} rows delivered, {orders.count()} rows in the topic")
    orders.orderBy("order").show()


def delivered(spark: SparkSession, folder: Path) -> DataFrame:
    """Returns a stream of the shop's files, one per micro-batch."""
    (folder / "in").mkdir()
    for number, rows in enumerate(FILES):
        (folder / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, rows)))
    files = spark.readStream.schema("order string, cents long").option("maxFilesPerTrigger", "1")
    return files.json(str(folder / "in"))


def write(df: DataFrame, url: str, checkpoint: str) -> None:
    """Writes each order once: the gateway drops a row whose id was written before, by any writer."""
    query = (
        df.writeStream.format("oncegate")
        .option("url", url)
        .option("namespace", NAMESPACE)
        .option("write", "ids")
        .option("idCol", "order")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(TOPIC)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
