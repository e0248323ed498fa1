"""Writes each row of a stream to a PostgreSQL table once: rows and batch name are written in one transaction.

    oncegate serve                            # in another terminal
    python examples/jdbc.py --dsn "host=127.0.0.1 dbname=shop" --folder /tmp/orders

The folder holds the input and the query's checkpoint. After a crash at any point, run it again, and each order is in
the table once. Requires the environment of `make setup`, Java 17 or 21, and a PostgreSQL server.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from oncegate_spark import Gateway, NamedBatch, NamedBatches, foreach_batch

NAMESPACE = "shop"
FILES = (
    [{"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}],
    [{"order": "a-3", "cents": 9900}],
)
TABLES = """
CREATE TABLE IF NOT EXISTS orders ("order" text, cents bigint, batch text);
CREATE TABLE IF NOT EXISTS written (job text PRIMARY KEY, number bigint NOT NULL, fence bigint NOT NULL);
"""


class Fenced(Exception):
    """Raised if a newer attempt has begun: this one is a zombie and must stop."""


def write(df: DataFrame, batch: NamedBatch, dsn: str) -> bool:
    """Writes a batch and its name; returns false, writing nothing, if the table has it. Raises Fenced."""
    with psycopg.connect(dsn) as database:  # one transaction: committed at its end, rolled back by an error
        if not entered(database, batch):
            return False
        with database.cursor().copy('COPY orders ("order", cents, batch) FROM STDIN') as rows:
            for row in df.toLocalIterator():
                rows.write_row((row["order"], row["cents"], batch.name))
    return True


def entered(database: psycopg.Connection[Any], batch: NamedBatch) -> bool:
    """Records the batch as the last of its job; returns false if the table has it. Raises Fenced.

    Locks the job's row until the transaction ends. A concurrent attempt waits for that, then reads the new number and
    fence.
    """
    first = (batch.job, -1, batch.fence)
    database.execute("INSERT INTO written VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", first)
    found = database.execute("SELECT number, fence FROM written WHERE job = %s FOR UPDATE", [batch.job]).fetchone()
    assert found is not None
    number, fence = found
    if fence > batch.fence:
        raise Fenced(f"{batch.name}: attempt {fence} has begun after this one, {batch.fence}")
    now = (max(number, batch.number), batch.fence, batch.job)
    database.execute("UPDATE written SET number = %s, fence = %s WHERE job = %s", now)
    return bool(number < batch.number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the gateway")
    parser.add_argument("--dsn", required=True, help="the database, as libpq takes it")
    parser.add_argument("--folder", required=True, type=Path, help="for the input and the checkpoint")
    given = parser.parse_args()
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
    with psycopg.connect(given.dsn) as database:
        database.execute(TABLES)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()

    def each(df: DataFrame, batch: NamedBatch) -> None:
        new = write(df, batch, given.dsn)
        print(f"{batch.name}: {'written' if new else 'was in the table already'}")

    named = NamedBatches(given.url, sink="orders", namespace=NAMESPACE, app="orders-to-table")
    query = (
        delivered(spark, given.folder)
        .writeStream.foreachBatch(foreach_batch(each, named=named))
        .option("checkpointLocation", str(given.folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def delivered(spark: SparkSession, folder: Path) -> DataFrame:
    """Returns a stream of the shop's files, one per micro-batch."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(FILES):
        file = folder / "in" / f"{number}.json"
        if not file.exists():
            file.write_text("\n".join(map(json.dumps, rows)))
    files = spark.readStream.schema("order string, cents long").option("maxFilesPerTrigger", "1")
    return files.json(str(folder / "in"))


if __name__ == "__main__":
    main()
