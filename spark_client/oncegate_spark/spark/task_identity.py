"""Identity of a task and of its batch, from Spark's local properties.

Their keys are internal names of Spark; only `of_task` and `batch_of` read them. Never part of a name: task, partition
and attempt numbers (a new driver starts from 0), and job ids (a re-run has another).
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from oncegate_spark.errors import BrokenMessages, NoIdentity
from oncegate_spark.protocol.names import BatchName, WriterId
from oncegate_spark.spark.checkpoint import BatchInput, DriverNotes
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.column_names import CASE

NOTES = "spark.oncegate.driverNotes"  # set by foreach_batch, read by its tasks
OBSERVED = "spark.oncegate.observed"  # set by observe, read by the tasks of queries that start afterwards


@dataclass(frozen=True)
class Task:
    """One attempt of one task.

    query, batch  of a streaming query, also inside foreachBatch, but not in threads started there
    run          the query's run id, new at every start; None outside a streaming query
    serial       Spark's number of this attempt, greater than that of any attempt that started before in this
        driver;
                 Python has no access to the stage's attempt
    speculates   Spark may start a second attempt of a task beside the first
    observed     folder in which a listener expects counts
    is_case_sensitive  of the session's column names; known only in tasks
    write        one `df.write`, the same in all of its tasks
    """

    partition: int = 0
    attempt: int = 0
    stage: int = 0
    serial: int = 0
    speculates: bool = False
    query: str | None = None
    batch: str | None = None
    run: str | None = None
    notes: DriverNotes | None = None
    observed: str | None = None
    is_case_sensitive: bool = False
    write: str | None = None

    @property
    def number(self) -> int | None:
        """Spark's batch id; in a thread inside foreachBatch, the one that foreach_batch stored."""
        if self.batch is not None:
            return int(self.batch)
        return self.notes.input.number if self.notes and self.notes.input else None


def of_task() -> Task:
    """Returns the current task, from Spark's TaskContext."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "write() runs in a task"
    query = context.getLocalProperty("sql.streaming.queryId")
    group = context.getLocalProperty("spark.jobGroup.id")
    notes = DriverNotes.from_json(context.getLocalProperty(NOTES))
    run = group if query is not None and _is_uuid(group) else notes.run if notes else None
    return Task(
        partition=context.partitionId(),
        attempt=context.attemptNumber(),
        stage=context.stageId(),
        serial=context.taskAttemptId() % 2**31,
        speculates=_is_true(context.getLocalProperty("spark.speculation")),
        query=query,
        batch=context.getLocalProperty("streaming.sql.batchId"),
        run=run,
        notes=notes,
        observed=context.getLocalProperty(OBSERVED),
        is_case_sensitive=_is_true(context.getLocalProperty(CASE)),  # Spark passes settings to tasks
    )


def writer_of(task: Task, job: str | None = None, version: str | None = None) -> WriterId:
    """Returns the writer identity of a task attempt, for the gateway's counts.

    A query's id names the job, also inside foreachBatch. Elsewhere `job` does, with `version` as its batch, or this
    very write if it has no name.
    """
    noted = task.notes.input if task.notes else None
    query, number = task.query or (noted.query if noted else None), task.number
    if query is not None:
        named = WriterId(job=query, run=task.run, batch=None if number is None else str(number))
    else:
        named = WriterId(job=job or f"df.write {task.write}", run=task.write, batch=version)
    return replace(
        named,
        stage=task.stage,
        task=task.partition,
        attempt=task.attempt,
        serial=task.serial,
        speculation=task.speculates,
    )


def driver_of_task(writer: WriterId) -> WriterId:
    """Returns the writer identity of a task's driver: job, run and batch."""
    return WriterId(job=writer.job, run=writer.run, batch=writer.batch)


def batch_of(df: Any) -> str | None:
    """Returns the batch id of foreachBatch, on the driver and in its thread; None elsewhere."""
    context = getattr(df.sparkSession, "sparkContext", None)  # Spark Connect has none
    look: Callable[[str], str | None] | None = getattr(context, "getLocalProperty", None)
    return None if look is None else look("streaming.sql.batchId")


def name_of(options: Options, task: Task) -> BatchName:
    """Returns the batch's name: txnAppId and txnVersion if set, else query id and batch id.

    Raises NoIdentity with the option to add: without a name a retry could not be recognised.
    """
    app = options.app or task.query
    version = options.version if options.version is not None else task.batch
    if app is None or version is None:
        add = (
            '.option("txnVersion", "<this run, e.g. 2026-11-20>")'
            if options.app
            else '.option("txnAppId", "<a name for this job>").option("txnVersion", "<this run, e.g. 2026-11-20>")'
        )
        raise NoIdentity(
            "this write has no name, so a retry or a re-run could not be recognised: it does not run in a streaming "
            "query, or it runs in a thread inside foreachBatch, where Spark does not reveal the batch. "
            f'Add {add} (inside foreachBatch the version is the batch id), or .option("write", "plain"), '
            "which accepts duplicates"
        )
    return BatchName(app, version, options.topic, options.write_id)


def input_of(task: Task, version: str, own: BatchInput | None) -> BatchInput | None:
    """Returns the input of the batch that this write belongs to.

    `own`: read by the writer itself when its batch began. Other input (from foreach_batch, or read for a write outside
    of Spark's batches) counts only for its own batch, since a thread that outlives its batch would see the next one's.
    Raises BrokenMessages if the checkpoint is another query's; nothing was written.
    """
    read = own if own is not None else task.notes.input if task.notes else None
    if read is None:
        return None
    if task.query and read.query and read.query != task.query:
        raise BrokenMessages(
            f"the checkpoint belongs to query {read.query}, and this is query {task.query}: set its own "
            "checkpointLocation, and the same folder as checkpointUrl"
        )
    if own is not None and task.batch is not None:
        return own  # commit checks its batch
    return read if str(read.number) == (task.batch or version) else None


def offsets_of(task: Task, read: BatchInput | None) -> str | None:
    """Returns the source offsets of a batch for the message of one of its tasks; None for the others."""
    return read.offsets if read is not None and task.partition == 0 else None


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"


def _is_uuid(text: str | None) -> bool:
    try:
        return text is not None and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
