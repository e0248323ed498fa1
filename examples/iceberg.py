"""Writes each row of a stream to an Iceberg table once: a snapshot records the batch's name, number and fence.

    oncegate serve                            # in another terminal
    python examples/iceberg.py --folder /tmp/orders

The folder holds the input, the query's checkpoint, the table and its catalogue (SQLite). After a crash at any point,
run it again, and each order is in the table once. PyIceberg writes the table on the driver, so a batch must fit into
its memory. Requires the environment of `make setup`, and Java 17 or 21.
"""

import argparse
import json
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of
from pyspark.sql import DataFrame, SparkSession

from oncegate_spark import Gateway, NamedBatch, NamedBatches, foreach_batch

NAMESPACE, TABLE = "shop", "shop.orders"
FILES = (
    [{"order": "a-1", "cents": 1200}, {"order": "a-2", "cents": 350}],
    [{"order": "a-3", "cents": 9900}],
)
SCHEMA = pa.schema([("order", pa.string()), ("cents", pa.int64())])
# PyIceberg retries a refused append on the newest snapshot without checking it again, so a zombie would write a copy.
RETRIES = "commit.retry.num-retries"
LOOKS_MAX = 5  # each concurrent append by another writer costs one


class Fenced(Exception):
    """Raised if a newer attempt has written: this one is a zombie and must stop."""


def write(rows: pa.Table, batch: NamedBatch, table: Table) -> bool:
    """Appends a batch with its name as one snapshot; returns false, writing nothing, if the table has it.

    The snapshot is based on the one that was read. If another was committed since, the catalogue refuses it, and the
    table is read again. Raises Fenced, ValueError if the table's properties allow unchecked retries of appends, and
    pyiceberg's CommitFailedException after LOOKS_MAX tries. Nothing was written then.
    """
    properties = {"job": batch.job, "batch": batch.name, "number": str(batch.number), "fence": str(batch.fence)}
    for look in range(LOOKS_MAX):
        table.refresh()
        if table.properties.get(RETRIES) != "0":
            raise ValueError(f"set {RETRIES} of {table.name()} to 0: a late attempt would be appended once more")
        if entered(table, batch):
            return False
        try:
            table.append(rows, snapshot_properties={f"oncegate.{name}": text for name, text in properties.items()})
            return True
        except CommitFailedException:
            if look == LOOKS_MAX - 1:
                raise
    raise AssertionError("the last look returns or raises")


def entered(table: Table, batch: NamedBatch) -> bool:
    """Returns whether the table has the batch, by the job's newest snapshot in its history. Raises Fenced."""
    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        said = snapshot.summary.additional_properties if snapshot.summary else {}
        if said.get("oncegate.job") == batch.job:
            if int(said["oncegate.fence"]) > batch.fence:
                raise Fenced(f"{batch.name}: attempt {said['oncegate.fence']} has written, this is {batch.fence}")
            return int(said["oncegate.number"]) >= batch.number
    return False


def open_table(folder: Path) -> Table:
    """Opens the table; creates it if it does not exist."""
    catalogue = SqlCatalog("shop", uri=f"sqlite:///{folder}/catalogue.db", warehouse=folder.absolute().as_uri())
    catalogue.create_namespace_if_not_exists(NAMESPACE)
    return catalogue.create_table_if_not_exists(TABLE, schema=SCHEMA, properties={RETRIES: "0"})


def run(spark: SparkSession, url: str, folder: Path) -> None:
    """Writes the delivered rows that are not written yet."""
    table = open_table(folder)

    def each(df: DataFrame, batch: NamedBatch) -> None:
        new = write(df.toArrow().cast(SCHEMA), batch, table)
        print(f"{batch.name}: {'written' if new else 'was in the table already'}")

    named = NamedBatches(url, sink="orders", namespace=NAMESPACE, app="orders-to-iceberg")
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
