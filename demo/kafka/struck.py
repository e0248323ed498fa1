"""Where tasks of the demo on Kafka are struck: beside the gateway's writer, and in front of Spark's own sink.

Spark's sink is Java's, so its faults strike the last operator before it: what that has given out, the sink has sent.
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
    """The demo's format, whose tasks wait for the broker's death too."""

    @classmethod
    def name(cls) -> str:
        """Returns the name that Spark's `format` takes."""
        return "oncegate_kafka_demo"

    def streamWriter(self, schema: Any, overwrite: bool) -> "OutlivingWriter":
        """Wraps the demo's writer once more."""
        return OutlivingWriter(super().streamWriter(schema, overwrite))


class OutlivingWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """broker_kill; the others strike in the writer inside."""

    def __init__(self, inner: StruckWriter) -> None:
        self.inner = inner

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        """Writes one task's rows."""
        return self.inner.write(through_a_dead_broker(Here(), iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        """Commits a batch as the writer inside does."""
        self.inner.commit(messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Aborts a batch as the writer inside does."""
        self.inner.abort(messages, batchId)


def through_a_dead_broker(here: Here, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """broker_kill: waits behind the second batch until the broker is dead, and tells when the third is handed over."""
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
    """For mapInArrow: hands rows on, and dies, raises or blocks where a fault is due."""
    here = Here()
    here.say("attempt")
    rows = 0
    for batch in through_a_dead_broker(here, batches):
        yield batch
        rows += batch.num_rows
    if here.strikes("worker_kill"):
        # Not earlier: the first batches are still in this process's buffer, and its sink would never have seen them.
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
