"""Write mode plain: every retry writes again. At least once, for jobs that accept duplicates and for comparisons."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from oncegate_spark.errors import OncegateError, Outcome
from oncegate_spark.protocol import codecs
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.observe.counts import Mailbox, WriteCounts, leave, mailbox_of
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit
from oncegate_spark.spark.writers.common import TaskMark, store_mark, stored_mark, task_errors, task_gateway, task_mark

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class TaskProduced:
    """Number of rows that one task wrote, for the driver."""

    rows: int
    task_mark: TaskMark
    mailbox: Mailbox | None = None


class PlainWriter:
    """Appends every row to a topic of the gateway, again in each retry."""

    def __init__(self, options: Options, read: BatchInput | None, fit: Fit = AS_THEY_COME) -> None:
        self.options = options
        self.fit = fit
        self.mark = stored_mark(options)

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> TaskProduced:
        """In a task: appends its rows. Raises TaskFailed, which reports the rows written."""
        options, rows = self.options, 0

        def written(error: OncegateError) -> tuple[Outcome, str]:
            if error.outcome is Outcome.UNKNOWN:
                return Outcome.UNKNOWN, f"unknown: whether the last chunk was written; {rows} rows before it were"
            if rows:
                return Outcome.WRITTEN, f"{rows} rows were written by this task; its retry writes them again"
            return Outcome.NOT_WRITTEN, "nothing was written by this task"

        with task_errors(options, task, written), task_gateway(options, self.mark, task) as gateway:
            for call, (body, _) in enumerate(codecs.chunks(self.fit.applied(batches, task))):
                rows += gateway.produce(options.topic, token, call, body, key_col=options.key_names).rows
            return TaskProduced(rows, task_mark(options, task, gateway), mailbox_of(task))

    def commit(self, messages: Sequence[TaskProduced], batch_id: int | None) -> None:
        """On the driver: stores the ledger position, and warns that retries write duplicates."""
        marks = [message.task_mark for message in messages]
        for task in marks:
            store_mark(self.options, marks, task.mark)
        rows = sum(message.rows for message in messages)
        if messages:
            leave(messages[0].mailbox, WriteCounts(mode="plain", target=self.options.topic, rows=rows, written=rows))
        log.warning(
            "write=plain: %d rows are in topic %s AT LEAST once; retries write duplicates. "
            'To write each once: .option("write", "staged")',
            rows,
            self.options.topic,
        )

    def abort(self, messages: Sequence[TaskProduced]) -> None:
        """Undoes nothing: written rows stay."""
        rows = sum(message.rows for message in messages)
        log.warning(
            "write=plain: the write failed, and at least %d rows of it stay in topic %s", rows, self.options.topic
        )
