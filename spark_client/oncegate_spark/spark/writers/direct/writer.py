"""Write mode direct: the tasks write into Kafka themselves, and ask the gateway only which sequences are written.

A task has one transaction per lane: started at the lane's first row, asked about for each batch, and committed after
the task's last row. So a failed task has written nothing of the lanes that it did not commit.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import pyarrow as pa

from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.observe.counts import Mailbox, WriteCounts, leave, mailbox_of
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit
from oncegate_spark.spark.writers.common import (
    REPEATED,
    TaskMark,
    log_all_suppressed,
    log_leading,
    pipelined,
    store_mark,
    stored_mark,
    task_errors,
    task_gateway,
    task_mark,
    written_by,
)
from oncegate_spark.spark.writers.direct import acked
from oncegate_spark.spark.writers.direct.lanes import TaskLanes, config_of

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class DirectReport:
    """Row counts of one task, for the driver.

    `upto`: last sequence of each producer; `batch`: of the query, None outside one.
    """

    rows: int
    written: int
    suppressed: int
    task_mark: TaskMark
    upto: Mapping[str, int]
    batch: int | None
    mailbox: Mailbox | None = None
    leading: Mapping[str, int] = field(default_factory=dict)


class DirectRowsWriter:
    """Has the tasks write their rows into a Kafka topic, each once by producer and sequence."""

    def __init__(self, options: Options, read: BatchInput | None, fit: Fit = AS_THEY_COME) -> None:
        self.options = options
        self.fit = fit
        self.mark = stored_mark(options)
        self.acked = acked.known(options)

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> DirectReport:
        """In a task: writes its rows, each once. Raises TaskFailed, which reports the rows written."""
        options = self.options
        with task_gateway(options, self.mark, task) as gateway, ExitStack() as transactions:
            lanes = TaskLanes(gateway, options, transactions, {}, self.acked)
            with task_errors(options, task, lanes.outcome):
                lanes.config = config_of(options.kafka_config_file)
                rows = (batch for batch in self.fit.applied(batches, task) if batch.num_rows)
                for _ in pipelined(lanes.add, rows):  # the next rows are read while these are processed
                    pass
                lanes.commit()
            counts = lanes.rows, lanes.written, lanes.suppressed
            mark = task_mark(options, task, gateway)
            return DirectReport(*counts, mark, lanes.upto, task.number, mailbox_of(task), lanes.leading)

    def commit(self, messages: Sequence[DirectReport], batch_id: int | None) -> None:
        """On the driver: stores ledger position and acks, and logs the counts; every row was written when its task was
        done.
        """
        marks = [message.task_mark for message in messages]
        for task in marks:
            store_mark(self.options, marks, task.mark)
        if messages:
            batch = messages[0].batch if batch_id is None else batch_id
            acked.note(self.options, marks[0].checkpoint, batch, [message.upto for message in messages])
        rows, written, suppressed = (
            sum(getattr(message, name) for message in messages) for name in ("rows", "written", "suppressed")
        )
        topic = self.options.topic
        if messages:
            counts = WriteCounts(mode="direct", target=topic, rows=rows, written=written, suppressed=suppressed)
            leave(messages[0].mailbox, counts)
        log_leading([message.leading for message in messages], batch_id)
        if rows and rows == suppressed:
            log_all_suppressed(f"{written_by(batch_id)} to topic {topic}", rows, REPEATED)
        log.info(
            "%s by sequence to topic %s: rows=%d written=%d suppressed=%d",
            written_by(batch_id),
            topic,
            rows,
            written,
            suppressed,
        )

    def abort(self, messages: Sequence[DirectReport]) -> None:
        """Undoes nothing: written rows stay, and a retry skips them."""
        log.warning(
            "write=direct: the write failed; at least %d rows of it stay in topic %s, and the retry drops them",
            sum(message.written for message in messages),
            self.options.topic,
        )
