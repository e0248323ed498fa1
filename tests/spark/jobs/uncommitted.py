"""Prints the answers of explain_job and assign_sequences for real Kafka sources, without a broker, as JSON."""

import json
import logging
from typing import Any

from pyspark.sql import SparkSession

from deploy.kafka.jars import CONNECTOR, fetched
from oncegate_spark import assign_sequences, explain_job

TARGET = {"url": "http://127.0.0.1:1", "topic": "t", "idCol": "key", "guarantee": "effectively_once"}
COMMITTED = {"kafka.isolation.level": "read_committed"}


class Lines(logging.Handler):
    """Collects logged messages."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    jars = ",".join(str(jar) for jar in sorted(fetched(CONNECTOR).glob("*.jar")))
    builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    spark = builder.getOrCreate()

    def source(kind: str = "readStream", **options: str) -> Any:
        given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "events", **options}
        return getattr(spark, kind).format("kafka").options(**given).load()

    def explained(df: Any) -> str:
        return str(explain_job(df.selectExpr("cast(key as string) as key", "value"), **TARGET))

    def logged(df: Any) -> str:
        logging.getLogger("oncegate_spark").addHandler(heard := Lines())
        assign_sequences(df, topic_ids={})  # there is no broker to ask
        return "\n".join(heard.lines)

    told = {
        "explain_job of a stream": explained(source()),
        "explain_job of a batch": explained(source("read", startingOffsets='{"events":{"0":0}}')),
        "explain_job of committed rows": explained(source(**COMMITTED)),
        "assign_sequences": logged(source()),
        "assign_sequences of committed rows": logged(source(**COMMITTED)),
    }
    print(json.dumps(told))
    spark.stop()


if __name__ == "__main__":
    main()
