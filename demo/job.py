"""The Spark job of the demo, a separate program that writes departures of arriving flights through Oncegate.

    python -m demo.job --write staged --cores 2 --url http://127.0.0.1:8080 --folder RUN --data DATA

The job exits at a batch boundary once everything in the inbox is written. Any failure ends it with status 1; the
supervisor then restarts it on the same checkpoint.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import gettempdir

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from demo.data import PARTS_PER_BATCH
from demo.hooks import events
from demo.source import DemoSource

TOPIC = "departures"
ID = ("time_hour", "carrier", "flight")
LEASE_MS = 2_000
TIMEOUT_MS = 60_000
ROWS_PER_ARROW_BATCH = 1_000
ATTEMPTS_PER_TASK = 4
JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"

FLIGHTS = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour string"
)
AIRLINES = "carrier string, name string"


def session(master: str, folder: Path, more: Mapping[str, str] | None = None) -> SparkSession:
    """Returns a session that writes all its files below `folder`. `more`: additional settings.

    With a single compiler tier and the serial collector, a short job on two cores uses half the processor time.
    """
    builder = (
        SparkSession.builder.master(master)
        .appName("oncegate demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", f'{JVM_OPTIONS} "-Djava.io.tmpdir={gettempdir()}"')
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", str(ROWS_PER_ARROW_BATCH))
    )
    for name, value in (more or {}).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def departures(flights: DataFrame, airlines: DataFrame, more: Sequence[str] = ()) -> DataFrame:
    """Joins flights with airlines (stream-static), converts clock times to minutes of the day, and adds the minutes
    made up in the air. All numbers are integers.

    `more`: further columns of the flights, appended unchanged.
    """
    return flights.join(F.broadcast(airlines), "carrier", "left").select(
        *ID,
        F.col("name").alias("airline"),
        *("origin", "dest", "tailnum"),
        *(minute_of_day(name).alias(f"{name}_minute") for name in ("sched_dep_time", "dep_time", "arr_time")),
        *("dep_delay", "arr_delay"),
        (F.col("dep_delay") - F.col("arr_delay")).alias("made_up_minutes"),
        F.col("air_time").alias("air_minutes"),
        F.col("distance").alias("distance_miles"),
        *more,
    )


def minute_of_day(name: str) -> F.Column:
    """Converts a clock time to the minute of the day: 517 (5:17 a.m.) becomes 317, null stays null."""
    return F.expr(f"cast({name} div 100 * 60 + {name} % 100 as int)")


def options(arguments: argparse.Namespace) -> dict[str, str]:
    """Returns the options of the sink for each way to write."""
    texts = {
        "url": arguments.url,
        "namespace": arguments.write,
        "write": arguments.write,
        "timeoutMs": str(TIMEOUT_MS),
        "checkpointLocation": str(arguments.folder / "checkpoint"),
    }
    if arguments.write in ("claim", "ids"):
        texts["idCol"] = ",".join(ID)
    if arguments.write == "claim":
        texts |= {
            "sink": "demo.sinks:files",
            "sinkPath": str(arguments.folder / "sink"),
            "leaseMs": str(LEASE_MS),
        }
    return texts


def arriving(spark: SparkSession, arguments: argparse.Namespace, file: str = "") -> DataFrame:
    """Streams departures of the flights in the inbox, two files per micro-batch.

    `file`: name of an added column with the row's file; empty: none.
    """
    flights = (
        spark.readStream.schema(FLIGHTS)
        .options(header=True, nullValue="NA", maxFilesPerTrigger=PARTS_PER_BATCH)
        .csv(str(arguments.folder / "inbox"))
    )
    airlines = spark.read.schema(AIRLINES).option("header", True).csv(str(arguments.data / "airlines.csv"))
    if file:
        return departures(flights.withColumn(file, F.col("_metadata.file_name")), airlines, (file,))
    return departures(flights, airlines)


def run(spark: SparkSession, arguments: argparse.Namespace) -> None:
    """Writes everything in the inbox. Raises the error that ended the query."""
    spark.dataSource.register(DemoSource)
    writer = arriving(spark, arguments).writeStream.format(DemoSource.name()).options(**options(arguments))
    writer.trigger(availableNow=True).start(TOPIC).awaitTermination()


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", required=True)
    parser.add_argument("--cores", required=True, type=int)
    parser.add_argument("--url", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    return parser


def perform(
    arguments: argparse.Namespace,
    run: Callable[[SparkSession, argparse.Namespace], None],
    more: Mapping[str, str] | None = None,
) -> None:
    """Reports the JVM's pid to the supervisor, which kills it, then runs the job. `more`: Spark settings."""
    spark = session(f"local[{arguments.cores},{ATTEMPTS_PER_TASK}]", arguments.folder, more)
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    events().say("driver", python=os.getpid(), jvm=jvm, cores=arguments.cores)
    try:
        run(spark, arguments)
    finally:
        spark.stop()  # otherwise the JVM may keep running


if __name__ == "__main__":
    perform(parser().parse_args(), run)
