"""Identifies a task by what Spark says of it, and names its batch.

The keys of Spark's local properties are its internal names; they are read in `of_task` and `batch_of`. Never part of
a name: task, partition and attempt numbers (a new driver counts again), a job id (a re-run has another).
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

NOTES = "spark.oncegate.driverNotes"  # set by foreach_batch, seen by its tasks
OBSERVED = "spark.oncegate.observed"  # set by observe, seen by the tasks of queries that start after it


@dataclass(frozen=True)
class Task:
    """Identifies one attempt of one task.

    `query` and `batch` are known in a streaming query and inside foreachBatch, but not in threads started there.

    `run`: the query's run id, new at every start; None outside a streaming query. `observed`: the folder where a
    listener waits for counts. `is_case_sensitive`: the session tells columns apart by case; known in tasks alone.

    `serial`: Spark's number of this very attempt, greater than that of any that started before it in this driver; of
    the stage's attempt Python learns nothing.

    `speculates`: Spark may start a second attempt of a task beside the first. `write`: one `df.write`, the same in all
    of its tasks.
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
        """Spark's batch id, as a number; in a thread inside foreachBatch the one that foreach_batch noted."""
        if self.batch is not None:
            return int(self.batch)
        return self.notes.input.number if self.notes and self.notes.input else None


def of_task() -> Task:
    """The task that this is called in, from Spark's TaskContext."""
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
        is_case_sensitive=_is_true(context.getLocalProperty(CASE)),  # Spark hands settings on
    )


def writer_of(task: Task, job: str | None = None, version: str | None = None) -> WriterId:
    """Names an attempt of a task for the gateway's counts; `driver_of_task` names its driver.

    A query's id names the job, also inside foreachBatch; elsewhere `job` does, with `version` as its batch, or this
    very write where it has no name.
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
    """Names the driver of a task's attempt: the job, its run and its batch."""
    return WriterId(job=writer.job, run=writer.run, batch=writer.batch)


def batch_of(df: Any) -> str | None:
    """The id of the batch that foreachBatch is called with, on the driver and in its thread; None elsewhere."""
    context = getattr(df.sparkSession, "sparkContext", None)  # Spark Connect has none
    look: Callable[[str], str | None] | None = getattr(context, "getLocalProperty", None)
    return None if look is None else look("streaming.sql.batchId")


def name_of(options: Options, task: Task) -> BatchName:
    """The batch's name: txnAppId and txnVersion where given, else query id and batch id.

    Raises NoIdentity with the line to add: without a name a retry could not be recognised.
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
            "nothing names this write, so a retry or a re-run could not be recognised: it runs in no streaming query, "
            "or in a thread inside foreachBatch, where Spark does not say which batch it is. "
            f'Add {add} (inside foreachBatch the version is the batch id), or .option("write", "plain"), '
            "which accepts duplicates"
        )
    return BatchName(app, version, options.topic, options.write_id)


def input_of(task: Task, version: str, own: BatchInput | None) -> BatchInput | None:
    """The input of the batch that this write belongs to.

    `own`: read by the writer itself when its batch began. What foreach_batch notes, and what is read for a write that
    runs in no batch of Spark's, is taken only for the batch that it is of: a thread that outlives its batch would
    carry the next one's. Raises BrokenMessages where the checkpoint is another query's; nothing was written.
    """
    read = own if own is not None else task.notes.input if task.notes else None
    if read is None:
        return None
    if task.query and read.query and read.query != task.query:
        raise BrokenMessages(
            f"the checkpoint that was read is that of query {read.query}, and this is query {task.query}: give its own "
            "as checkpointLocation, and the same folder as checkpointUrl"
        )
    if own is not None and task.batch is not None:
        return own  # of which batch it is, commit looks at
    return read if str(read.number) == (task.batch or version) else None


def offsets_of(task: Task, read: BatchInput | None) -> str | None:
    """Where the sources of a batch are to be read on, for the message of one of its tasks; None for the others."""
    return read.offsets if read is not None and task.partition == 0 else None


def _is_true(value: str | None) -> bool:
    return (value or "").lower() == "true"


def _is_uuid(text: str | None) -> bool:
    try:
        return text is not None and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
