"""Writes each row of a stream to a Delta table once: a commit records the batch's number as the job's transaction.

    oncegate serve                            # in another terminal
    python examples/delta.py --folder /tmp/orders

The folder holds the input, the query's checkpoint and the table. After a crash at any point, run it again, and each
order is in the table once. delta-rs (PyPI: deltalake) writes the table on the driver, so a batch must fit into its
memory. Requires the environment of `make setup`, and Java 17 or 21.
"""

import argparse
import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

from oncegate_spark import Gateway, NamedBatch, NamedBatches, foreach_batch

NAMESPACE = "shop"
FILES = (
    [{"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}],
    [{"order": "a-3", "cents": 9900}],
)
SCHEMA = pa.schema([("order", pa.string()), ("cents", pa.int64())])


class Fenced(Exception):
    """Raised if a newer attempt has written: this one is a zombie and must stop."""


def write(rows: pa.Table, batch: NamedBatch, table: DeltaTable) -> bool:
    """Appends a batch with its number and fence in one commit; returns false, writing nothing, if the table has it.

    The commit is based on the version that was read, and Delta refuses it if the job has committed since.
    Raises Fenced, or for such a conflict deltalake's CommitFailedError. Nothing was written then; the next run retries.
    """
    table.update_incremental()
    fence_id = f"{batch.job}/fence"
    if (table.transaction_version(fence_id) or 0) > batch.fence:
        raise Fenced(f"{batch.name}: attempt {table.transaction_version(fence_id)} has written, this is {batch.fence}")
    last = table.transaction_version(batch.job)
    if last is not None and last >= batch.number:
        return False
    written = [Transaction(batch.job, batch.number), Transaction(fence_id, batch.fence)]
    write_deltalake(table, rows, mode="append", commit_properties=CommitProperties(app_transactions=written))
    return True


def open_table(folder: Path) -> DeltaTable:
    """Opens the table; creates it if it does not exist."""
    return DeltaTable.create(str(folder / "table"), schema=SCHEMA, mode="ignore")


def run(spark: SparkSession, url: str, folder: Path) -> None:
    """Writes the delivered rows that are not written yet."""
    table = open_table(folder)

    def each(df: DataFrame, batch: NamedBatch) -> None:
        new = write(df.toArrow().cast(SCHEMA), batch, table)
        print(f"{batch.name}: {'written' if new else 'was in the table already'}")

    named = NamedBatches(url, sink="orders", namespace=NAMESPACE, app="orders-to-delta")
    query = (
        delivered(spark, folder)
        .writeStream.foreachBatch(foreach_batch(each, named=named))
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
    parser.add_argument("--folder", required=True, type=Path, help="for the input, the checkpoint and the table")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with Gateway(given.url, namespace=NAMESPACE) as gateway:
        gateway.create_namespace()  # no effect if it exists
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    run(spark, given.url, given.folder)
    spark.stop()


if __name__ == "__main__":
    main()
