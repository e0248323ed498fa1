"""Staged queries after Spark's Kafka source whose checkpoint is set back and whose topic is recreated.

    python -m tests.spark.jobs.kafka_restored URL NAMESPACE FOLDER BOOTSTRAP

FOLDER/results.json holds the outcome of each query: empty, or the error that stopped it.
"""

import base64
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from deploy.kafka.jars import CONNECTOR, fetched
from oncegate_spark import assign_sequences

SOURCE, WAIT_S = "events", 30
LANES = {"write": "ids", "producerCol": "oncegate_producer", "sequenceCol": "oncegate_sequence"}
BY_SEQUENCE = {"topic": "q", "txnAppId": "by sequence"}


class Events:
    """The source topic, of one partition, which can be recreated."""

    def __init__(self, bootstrap: str) -> None:
        self.config = {"bootstrap.servers": bootstrap}
        self.admin = AdminClient(self.config)
        self.make()

    def make(self) -> None:
        self.admin.create_topics([NewTopic(SOURCE, 1, 1)])[SOURCE].result(WAIT_S)

    def make_again(self) -> None:
        self.admin.delete_topics([SOURCE], operation_timeout=WAIT_S)[SOURCE].result(WAIT_S)
        while True:
            try:
                self.make()
                return
            except KafkaException:  # The brokers have not yet finished the deletion.
                self.admin.list_topics(timeout=WAIT_S)

    def topic_id(self) -> str:
        """Returns Kafka's present id of the topic, in the form that Kafka's tools print."""
        found = self.admin.describe_topics(TopicCollection([SOURCE]))[SOURCE].result(WAIT_S).topic_id
        number = (found.get_most_significant_bits() % 2**64 << 64) + found.get_least_significant_bits() % 2**64
        return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")

    def hold(self, *values: str) -> None:
        """Appends these values."""
        producer = Producer(self.config)
        for value in values:
            producer.produce(SOURCE, value.encode())
        assert producer.flush(WAIT_S) == 0


class Query:
    """A query over the source topic, with its checkpoint."""

    def __init__(self, url: str, namespace: str, folder: str, bootstrap: str) -> None:
        self.folder, self.bootstrap = Path(folder), bootstrap
        self.gateway = {"url": url, "namespace": namespace}
        self.checkpoint = self.folder / "checkpoint"
        jars = ",".join(str(jar) for jar in sorted(fetched(CONNECTOR).glob("*.jar")))
        builder = SparkSession.builder.master("local[2]").config("spark.jars", jars)
        builder = builder.config("spark.ui.enabled", "false").config("spark.local.dir", f"{folder}/local")
        self.spark = builder.getOrCreate()

    def rows(self) -> Any:
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": SOURCE, "startingOffsets": "earliest"}
        options["kafka.isolation.level"] = "read_committed"
        return self.spark.readStream.format("kafka").options(**options).load()

    def run(self, rows: Any, **options: str) -> str:
        """Consumes all present input. Returns the error that stopped the query."""
        writer = rows.writeStream.format("oncegate").options(**self.gateway, **options)
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        print("a query begins", options, file=sys.stderr, flush=True)
        try:
            writer.start().awaitTermination()
        except Exception as error:
            return str(error)
        return ""

    def staged(self) -> str:
        return self.run(self.rows().selectExpr("cast(value as string) as value"), topic="s", txnAppId="etl")

    def save(self) -> Path:
        return Path(shutil.copytree(self.checkpoint, self.folder / "saved"))

    def restore(self, saved: Path | None) -> None:
        shutil.rmtree(self.checkpoint)
        if saved is not None:
            shutil.copytree(saved, self.checkpoint)


def by_sequence(events: Events, query: Query, told: dict[str, str]) -> None:
    """Writes rows by sequence into topic q, at first without the topic's id, as older clients did."""

    def run(*, options: Mapping[str, str] = BY_SEQUENCE, **more: Any) -> str:
        rows = query.rows().selectExpr("topic", "partition", "offset", "cast(value as string) as value")
        query.restore(None)
        return query.run(assign_sequences(rows, **more), **LANES, **options)

    payload = {"topic": "d", "txnAppId": "with payloads", "digestCols": "value"}
    told["with payloads"] = run(topic_ids={}, options=payload)
    told["with payloads, the same again"] = run(topic_ids={}, options=payload)
    told["by sequence, without ids"] = run(topic_ids={})
    told["by sequence, the same topic"] = run()
    topic_id = events.topic_id()
    events.make_again()
    events.hold("y1", "y2")
    told["with payloads, a topic that was made again"] = run(topic_ids={}, options=payload)
    told["with payloads, dropped"] = run(topic_ids={}, options={**payload, "onConflict": "drop"})
    told["by sequence, a topic that was made again"] = run()
    told["by sequence, taken for the same"] = run(topic_ids={SOURCE: topic_id})
    told["by sequence, under another name"] = run(prefix="again-")


def main(url: str, namespace: str, folder: str, bootstrap: str) -> None:
    events, query, told = Events(bootstrap), Query(url, namespace, folder, bootstrap), {}
    events.hold("a1", "a2", "a3")
    told["first"] = query.staged()
    saved = query.save()
    events.hold("b1", "b2")
    told["second"] = query.staged()
    query.restore(saved)
    told["the same again"] = query.staged()
    events.hold("c1")
    told["behind it"] = query.staged()
    query.restore(saved)
    told["another input"] = query.staged()
    by_sequence(events, query, told)
    query.restore(None)
    events.make_again()
    events.hold("x1", "x2", "x3")
    told["a topic that was made again"] = query.staged()
    (query.folder / "results.json").write_text(json.dumps(told))
    query.spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
