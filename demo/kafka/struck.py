"""Injects faults into tasks of the demo on Kafka: around the gateway's writer, and before Spark's own sink.

Spark's sink is written in Java, so its faults strike the last operator before it. The sink has sent the rows that this
operator has handed over.
"""

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from demo.events import of_kind
from demo.hooks import BATCHES_BEFORE_THE_KILL, Here, block_until_killed, kill_this_process
from demo.source import DemoSource, StruckWriter

_WAIT_S_MAX = 60
_POLL_S = 0.02


class KafkaDemoSource(DemoSource):
    """The demo's format, with tasks that also wait until the broker is killed."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that Spark's `format` takes."""
        return "oncegate_kafka_demo"

    def streamWriter(self, schema: Any, overwrite: bool) -> "OutlivingWriter":
        return OutlivingWriter(super().streamWriter(schema, overwrite))


class OutlivingWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Injects broker_kill; the wrapped writer injects the other faults."""

    def __init__(self, inner: StruckWriter) -> None:
        self.inner = inner

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        return self.inner.write(through_a_dead_broker(Here(), iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        self.inner.commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        self.inner.abort(messages, batchId)


def through_a_dead_broker(here: Here, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Injects broker_kill: waits after the second batch until the broker is dead; records when the third is sent."""
    dead = False
    for number, batch in enumerate(batches, 1):
        yield batch
        if dead:
            here.say("handed_over", rows=batch.num_rows)
            dead = False
        if number == BATCHES_BEFORE_THE_KILL and here.strikes("broker_kill"):
            here.say("broker_due")
            _until_said(here, "injected", fault="broker_kill")
            dead = True


def struck(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Passes rows on, for mapInArrow; dies, raises or blocks if a fault is due."""
    here = Here()
    here.say("attempt")
    rows = 0
    for batch in through_a_dead_broker(here, batches):
        yield batch
        rows += batch.num_rows
    if here.strikes("worker_kill"):
        # Not earlier: the first batches would still be in this process's buffer, and never reach the sink.
        here.injected("worker_kill", rows=rows)
        kill_this_process()
    here.say("wrote", rows=rows)
    if here.strikes("task_error"):
        here.injected("task_error", rows=rows)
        raise RuntimeError("demo: task_error, behind the last row")
    if here.strikes("driver_kill"):
        _until_said(here, "wrote", batch=here.batch, partition=1)
        here.say("blocked")
        block_until_killed()


def _until_said(here: Here, kind: str, **fields: Any) -> None:
    end = time.monotonic() + _WAIT_S_MAX
    while not of_kind(here.events.all(), kind, **fields) and time.monotonic() < end:
        time.sleep(_POLL_S)
