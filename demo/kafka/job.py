"""The demo's job that writes to a Kafka topic, by Spark's own sink or through Oncegate; a separate program.

    python -m demo.kafka.job --write kafka --topic departures --brokers 127.0.0.1:9092 --jars FOLDER …

In other respects it is `demo.job`. The key of a record is the flight's id, its value the row as JSON.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from demo.job import ID, arriving, parser, perform
from demo.kafka.struck import KafkaDemoSource, struck
from demo.plan import SPARKS_SINK

KEY = "key"
DIRECT, FILE, SEQUENCE = "direct", "file", "place"
RECORD = f"{KEY} string, value string"


def records(rows: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
    """Returns key and value of each row, nulls included, and the columns `beside` unchanged."""
    row = F.to_json(F.struct(*(name for name in rows.columns if name not in beside)), {"ignoreNullFields": "false"})
    return rows.select(F.concat_ws(" ", *ID).alias(KEY), row.alias("value"), *beside)


def numbered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds to each row its position in its file, for mapInArrow; a task reads a file from first to last line."""
    places: Counter[str] = Counter()
    for batch in batches:
        sequences = []
        for name in batch.column(FILE).to_pylist():
            sequences.append(places[name])
            places[name] += 1
        yield batch.append_column(SEQUENCE, pa.array(sequences, pa.int64()))


def run(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Writes everything in the inbox. Raises the error that ended the query."""
    spark.dataSource.register(KafkaDemoSource)
    rows = _rows(spark, arguments)
    if arguments.write == SPARKS_SINK:
        sink = rows.mapInArrow(struck, RECORD).writeStream.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", arguments.brokers)
    else:
        sink = rows.writeStream.format(KafkaDemoSource.name()).options(**through_the_gateway(arguments))
    sink = sink.option("topic", arguments.topic).option("checkpointLocation", str(arguments.folder / "checkpoint"))
    sink.trigger(availableNow=True).start().awaitTermination()


def _rows(spark: SparkSession, arguments: argparse.Namespace) -> DataFrame:
    if arguments.write != DIRECT:
        return records(arriving(spark, arguments))
    rows = arriving(spark, arguments, FILE)
    return records(rows, (FILE,)).mapInArrow(numbered, f"{RECORD}, {FILE} string, {SEQUENCE} bigint")


def through_the_gateway(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the options of Oncegate's sink."""
    way = arguments.write
    options = {"url": arguments.url, "namespace": way, "write": way}
    if way == DIRECT:
        return {**options, "producerCol": FILE, "sequenceCol": SEQUENCE}
    return {**options, "idCol": KEY} if way == "ids" else options


def main() -> None:
    """Parses the supervisor's arguments and runs the job."""
    more = parser()
    more.add_argument("--topic", required=True)
    more.add_argument("--brokers", required=True)
    more.add_argument("--jars", required=True, type=Path)
    arguments = more.parse_args()
    jars = ",".join(str(jar) for jar in sorted(arguments.jars.glob("*.jar")))
    perform(arguments, run, {"spark.jars": jars})


if __name__ == "__main__":
    main()
