"""Compares a Spark job that writes to Kafka through the gateway with Spark's own Kafka sink, which may write twice.

Spark holds keys of 36 bytes and values of 100 bytes in memory before the clock starts, and writes them to four
partitions. Spark, the gateway and the broker share the cores. `direct`: the tasks write to Kafka themselves, and the
gateway records what they have written. Run it with `python -m bench.cases.kafka_spark [--short]`.
"""

import json
import sys
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import functions as F

from bench.cases.lineitem import BATCH_BYTES, NO_LIMIT
from bench.cases.spark_jobs import batch_frame, session, timed
from bench.load.plan import LONG, SHORT
from bench.load.server import Served, gateway
from bench.report.figures import Figure, interleaved
from bench.report.reaches import SPARK_SINK
from deploy.kafka.cluster import Cluster
from deploy.kafka.jars import CONNECTOR, fetched

PARTITIONS = 4
WARM_ROWS = 20_000
WAYS = ("staged", "ids", "direct", "kafka")


def figures(quick: bool) -> list[dict[str, Any]]:
    """Measures rows per second of each way, with its own Spark, broker and gateway."""
    plan = SHORT if quick else LONG
    with tempfile.TemporaryDirectory(prefix="oncegate-bench-") as folder:
        path = Path(folder)
        (path / "gateway").mkdir()
        spark = session(path, sorted(fetched(CONNECTOR).glob("*.jar")))
        try:
            with (
                Cluster(path / "kafka") as cluster,
                gateway(path / "gateway", core=None, ledger=cluster.ledger("bench")) as served,
            ):
                rates = _measured(spark, cluster, served, plan.staged_rows, plan.rounds)
        finally:
            spark.stop()
    return [figure.plain() for figure in rates]


def _measured(spark: Any, cluster: Cluster, served: Served, rows: int, rounds: int) -> list[Figure]:
    spark.conf.set(BATCH_BYTES, NO_LIMIT)
    run = partial(_write, cluster=cluster, served=served)
    for way in WAYS:
        run(_frame(spark, WARM_ROWS), way)
    frame = _frame(spark, rows)
    rates = interleaved(rounds, {way: partial(timed, rows, run, frame, way) for way in WAYS})
    theirs = rates["kafka"]["rate"]
    return [
        Figure(
            f"Spark into Kafka, {way}, {rows:,} rows", rates[way]["rate"], "rows/s", runs=rates[way]["runs"]
        ).against(SPARK_SINK, theirs)
        for way in WAYS
        if way != "kafka"
    ]


def _frame(spark: Any, rows: int) -> Any:
    """Returns cached rows with their position in their partition, counted from its first row."""
    frame = batch_frame(spark, rows).withColumnRenamed("payload", "value")
    place = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1))
    numbered = frame.withColumn("lane", F.concat(F.lit("p-"), F.spark_partition_id())).withColumn("place", place)
    numbered = numbered.cache()
    numbered.count()
    return numbered


def _write(frame: Any, way: str, cluster: Cluster, served: Served) -> None:
    """Writes the frame once to its own topic."""
    topic = f"{way}-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    if way == "kafka":
        frame = frame.drop("lane", "place")
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
        frame.write.format("kafka").options(**options).save()
        return
    options = {"url": f"http://127.0.0.1:{served.port}", "write": way, "topic": topic}
    if way == "direct":
        options |= {"producerCol": "lane", "sequenceCol": "place"}
        frame.write.format("oncegate").mode("append").options(**options).save()
        return
    frame = frame.drop("lane", "place")
    # Every round writes the same keys, so each has its own dedup scope.
    options |= {"idCol": "key", "idSet": topic} if way == "ids" else {"txnAppId": topic, "txnVersion": "0"}
    frame.write.format("oncegate").mode("append").options(**options).save()


if __name__ == "__main__":
    print(json.dumps(figures("--short" in sys.argv), indent=1))
