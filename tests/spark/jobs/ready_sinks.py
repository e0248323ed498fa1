"""Ready sinks for write=claim whose worker is killed, once, after its first durable write and before it returns."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from oncegate_spark.delivery import DatabaseSink, FolderSink, HttpSink, KafkaSink, Record, Sink
from oncegate_spark.sinks import Deliver, SinkContext
from tests.spark.jobs.faults import die, first_time


class Dying:
    """A sink with a fault after its first write."""

    def __init__(self, sink: Sink, context: SinkContext) -> None:
        self.sink, self.folder = sink, context.options["faultfolder"]
        self.records_max = min(sink.records_max, 10)

    def write(self, records: Sequence[Record]) -> None:
        self.sink.write(records)
        if first_time(self.folder, "died"):
            die()

    def find(self, ids: Sequence[str]) -> set[str]:
        return self.sink.find(ids)

    def close(self) -> None:
        self.sink.close()


def _number(row: dict[str, Any]) -> bytes:
    return str(row["n"]).encode()


def _insert(cursor: Any, records: Sequence[Record]) -> None:
    cursor.executemany("INSERT INTO numbers VALUES (?)", [(record.body["n"],) for record in records])


def open_folder() -> Deliver:
    return Deliver(lambda context: Dying(FolderSink(context.options["place"]), context), _number)


def open_payments() -> Deliver:
    return Deliver(lambda context: Dying(HttpSink(context.options["place"]), context), _number)


def open_database() -> Deliver:
    def opened(context: SinkContext) -> Sink:
        path = Path(context.options["place"])
        return Dying(DatabaseSink(lambda: sqlite3.connect(path), _insert, placeholder="?"), context)

    return Deliver(opened, None)


def open_topic() -> Deliver:
    """Opens a transactional id for each part of the input. Rows are always repartitioned by id into the same number of
    parts."""

    def opened(context: SinkContext) -> Sink:
        transactional_id = f"{context.topic}-{context.partition}"
        return Dying(KafkaSink(context.options["place"], context.topic, transactional_id), context)

    return Deliver(opened, _number)
