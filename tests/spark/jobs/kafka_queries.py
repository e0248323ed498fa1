"""Streaming queries after Spark's own Kafka source, on a real broker: one is killed, others follow it.

    python -m tests.spark.jobs.kafka_queries killed|following URL NAMESPACE FOLDER BOOTSTRAP TOPIC

"killed": writes by sequence into topic t. Its driver is killed when the gateway has all of batch 1 and the commit log
does not. "following": runs the same query to its end. Then, after records that are written meanwhile, it runs a new
query with its own checkpoint from `committed_offsets`, and the same two with staged writes into topic s.
FOLDER/results.json holds the results.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from deploy.kafka.jars import CONNECTOR, fetched
from oncegate_spark import assign_sequences, committed_offsets
from oncegate_spark.errors import Refused
from tests.spark.jobs.killed_lanes import DeadlySource
from tests.support.kafka_transactions import write_transactions

FIRST, MORE = 6, 4  # transactions before the first query, and before the last ones
IN_BATCHES = {"maxOffsetsPerTrigger": "30"}  # three: the first is committed, the second killed, the third not acked
LANES = {"write": "ids", "producerCol": "oncegate_producer", "sequenceCol": "oncegate_sequence"}
SPLIT: dict[str, Callable[[Any], Any]] = {
    "repartition": lambda df: df.repartition(3),
    "repartition by a column": lambda df: df.repartition("partition"),
    "sort": lambda df: df.sortWithinPartitions("offset"),
    "dropDuplicates": lambda df: df.dropDuplicates(["topic", "partition", "offset"]),
    "union": lambda df: df.union(df),
    "no offset": lambda df: df.drop("offset"),
}


class Queries:
    """The session, topic and options that all queries of a process share."""

    def __init__(self, url: str, namespace: str, folder: str, bootstrap: str, topic: str) -> None:
        self.folder, self.bootstrap, self.topic = Path(folder), bootstrap, topic
        self.gateway = {"url": url, "namespace": namespace}
        jars = ",".join(str(jar) for jar in sorted(fetched(CONNECTOR).glob("*.jar")))
        builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
        builder = builder.config("spark.ui.enabled", "false").config("spark.local.dir", f"{folder}/local")
        self.spark = builder.getOrCreate()

    def source(self, kind: str = "readStream", **options: str) -> Any:
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, "startingOffsets": "earliest"}
        reader = getattr(self.spark, kind).format("kafka").option("kafka.isolation.level", "read_committed")
        return reader.options(**{**given, **options}).load()

    def rows(self, **options: str) -> Any:
        df = self.source(**options)
        return df.selectExpr("topic", "partition", "offset", "cast(value as string) as value")

    def run(self, stream: Any, checkpoint: str, sink: str = "oncegate", **options: str) -> None:
        writer = stream.writeStream.format(sink).options(**self.gateway, **options)
        writer = writer.option("checkpointLocation", str(self.folder / checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    def by_sequence(self, rows: Any, checkpoint: str, sink: str = "oncegate", **options: str) -> None:
        stream = assign_sequences(rows.where("value is not null"))
        self.run(stream, checkpoint, sink, **LANES, topic="t", txnAppId="etl", **options)

    def staged(self, app: str, starting: str = "earliest") -> None:
        rows = self.rows(startingOffsets=starting).repartition(3)
        self.run(rows, app, topic="s", txnAppId=app)

    def committed(self, app: str, topic: str) -> str:
        return committed_offsets(app, topic, gateway=self.gateway["url"], namespace=self.gateway["namespace"])

    def refusals(self) -> dict[str, str]:
        """Returns the refusals that `assign_sequences` raises for plans over the real source."""
        plans = {name: change(self.source()) for name, change in SPLIT.items()}
        plans["minPartitions"] = self.source(minPartitions="8")
        plans["a batch"] = self.source("read")
        return {name: refusal(df) for name, df in plans.items()}


def refusal(df: Any) -> str:
    try:
        assign_sequences(df)
    except Refused as error:
        return str(error)
    return ""


def killed(queries: Queries) -> None:
    java = queries.spark._jvm.java.lang.ProcessHandle.current().pid()
    processes = queries.folder / "processes"
    processes.write_text(f"{java} {os.getpid()}")
    queries.spark.dataSource.register(DeadlySource)
    queries.by_sequence(queries.rows(**IN_BATCHES), "lanes", DeadlySource.name(), processes=str(processes))


def following(queries: Queries) -> None:
    queries.by_sequence(queries.rows(**IN_BATCHES), "lanes")
    queries.staged("staged-1")
    told: dict[str, Any] = {"refusals": queries.refusals()}
    write_transactions(queries.bootstrap, queries.topic, FIRST, MORE)
    offsets = {app: queries.committed(app, topic) for app, topic in (("etl", "t"), ("staged-1", "s"))}
    told["offsets"] = {app: json.loads(text) for app, text in offsets.items()}
    queries.by_sequence(queries.rows(startingOffsets=offsets["etl"]), "lanes-after")
    queries.staged("staged-2", offsets["staged-1"])
    (queries.folder / "results.json").write_text(json.dumps(told))
    queries.spark.stop()


if __name__ == "__main__":
    {"killed": killed, "following": following}[sys.argv[1]](Queries(*sys.argv[2:]))
