"""Write mode staged: rows are staged by the tasks and published by the driver, all or nothing, once per name.

1. Each attempt of a task stages its rows under a token of its own. 2. The driver commits the tokens of the successful
attempts. No row is visible before 2, which also drops everything else staged under the name.
"""

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from oncegate_spark.errors import (
    BatchConflict,
    BatchForgotten,
    BrokenMessages,
    OncegateError,
    Outcome,
    Refused,
    SecondWrite,
    Unreachable,
)
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Committed
from oncegate_spark.protocol.answers import Staged as Kept
from oncegate_spark.protocol.names import BatchName
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.checkpoint.unknown import unknown
from oncegate_spark.spark.observe.counts import Mailbox, WriteCounts, leave, mailbox_of
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.advice import in_options
from oncegate_spark.spark.task_identity import Task, input_of, name_of, offsets_of
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit
from oncegate_spark.spark.writers.common import (
    REPEATED,
    TaskMark,
    driver_gateway,
    log_all_suppressed,
    pipelined,
    store_mark,
    stored_mark,
    task_errors,
    task_gateway,
    task_mark,
)
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")

ABORT_TIMEOUT_MS = 5_000  # best effort: stages that are not aborted are dropped by the commit, or by their age
NOT_TOLD = "inside foreachBatch Spark does not pass the checkpoint to a write"
TELLING = 'oncegate_spark.foreach_batch(fn), or .option("checkpointLocation", "<the query\'s>") on this write'
NOTHING_WRITTEN = "nothing was written by this task (staged rows are not visible before the driver's commit)"


@dataclass(frozen=True)
class TaskStaged:
    """Stages of one task attempt, for the driver. `fingerprint`: sum of the gateway's over its chunks, modulo 2^128.

    batch           Spark's batch id, None outside a stream
    by_query        the name is the query's own, without txnAppId
    is_noted        foreach_batch has read the input, or warned that it is unknown
    source_offsets  of the input; only in the message of partition 0, since they may be long
    """

    name: BatchName
    batch: str | None
    by_query: bool
    run: str | None
    token: str
    chunks: int
    rows: int
    fingerprint: int
    read: BatchInput | None
    is_noted: bool
    task_mark: TaskMark
    mailbox: Mailbox | None = None
    source_offsets: str | None = None


class StagedWriter:
    """Stages rows from the tasks and publishes them from the driver, all or nothing, once per name."""

    def __init__(self, options: Options, read: BatchInput | None, fit: Fit = AS_THEY_COME) -> None:
        self.options = options
        self.fit = fit
        self.read = read
        self.mark = stored_mark(options)
        self.owner = uuid.uuid4().hex

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> TaskStaged:
        """In a task: stages its rows under this attempt's token. Raises TaskFailed; nothing is visible then."""
        options = self.options
        with task_errors(options, task, lambda error: (Outcome.NOT_WRITTEN, NOTHING_WRITTEN)):
            name, rows_in = name_of(options, task), self.fit.applied(batches, task)
            read = input_of(task, name.version, self.read)
            with task_gateway(options, self.mark, task) as gateway:
                try:
                    chunks, rows, fingerprint = self._stage(gateway, name, self._owner(task), token, rows_in)
                except BaseException as error:
                    if not isinstance(error, Unreachable):
                        _drop(gateway, name, [token])
                    raise
                mark, by_query = task_mark(options, task, gateway), options.app is None
                count, is_noted = (chunks, rows, fingerprint), task.notes is not None
                notes, source = (is_noted, mark, mailbox_of(task)), offsets_of(task, read)
                read = None if read is None else replace(read, offsets=None)
                return TaskStaged(name, task.batch, by_query, task.run, token, *count, read, *notes, source)

    def _owner(self, task: Task) -> str:
        """Returns the name of the stages' owner: a later run of a query replaces an earlier one's; batch jobs may run
        concurrently.
        """
        return f"run:{task.run}" if task.run else f"job:{self.owner}"

    def _stage(
        self, gateway: Gateway, name: BatchName, owner: str, token: str, batches: Iterator[pa.RecordBatch]
    ) -> tuple[int, int, int]:
        """Stages all rows, even if the name is committed: the gateway compares a replay by its fingerprint."""
        count = rows = fingerprint = 0

        def stage(numbered: tuple[int, tuple[memoryview, int]]) -> Kept:
            number, (body, _) = numbered
            return gateway.stage(name, owner, token, number, body, self.options.key_names)

        for (_, (_, rows_sent)), staged in pipelined(stage, enumerate(codecs.chunks(batches))):
            if staged.rows != rows_sent:
                raise Refused(f"the gateway read {staged.rows} rows in a chunk of {rows_sent}", code="CHUNK")
            count, rows, fingerprint = count + 1, rows + rows_sent, (fingerprint + staged.fingerprint) % (1 << 128)
        return count, rows, fingerprint

    def commit(self, messages: Sequence[TaskStaged], batch_id: int | None) -> None:
        """On the driver: publishes the stages of the successful attempts.

        Raises BatchConflict, SecondWrite, BatchForgotten and MissingStage (see `errors`), and BrokenMessages if the
        tasks' messages are not of one batch.
        """
        if not messages:
            return  # no task, no rows, no name
        first, options = messages[0], self.options
        _check(messages, batch_id)
        is_told = first.is_noted or batch_id is not None or options.checkpoint or options.checkpoint_url
        if first.read is None and first.batch is not None and not is_told:
            log.warning("%s: %s", first.name, unknown(NOT_TOLD, TELLING))
        with driver_gateway(self.options, [message.task_mark for message in messages]) as gateway:
            try:
                done = gateway.commit(first.name, self._order(messages))
            except OncegateError as error:
                raise _with_ways_on(error) from error
            store_mark(self.options, [first.task_mark], gateway.mark)
        leave(first.mailbox, _counts(messages, done))
        _tell(first, done)

    def _order(self, messages: Sequence[TaskStaged]) -> dict[str, object]:
        read = messages[0].read
        winners = [
            {
                "token": message.token,
                "chunks": message.chunks,
                "rows": message.rows,
                "fingerprint": message.fingerprint.to_bytes(16, "little").hex(),
            }
            for message in messages
            if message.chunks
        ]
        return {
            "run": messages[0].run,
            "nonce": uuid.uuid4().hex,  # of this commit; its HTTP retries repeat it
            "winners": winners,
            "digest": read.digest if read else None,
            "previous_digest": read.previous if read else None,
            "reads_digest": _reads_digest(read, messages),
            "on_replay_mismatch": "first_wins" if self.options.first_wins else "fail",
            "source_offsets": next((message.source_offsets for message in messages if message.source_offsets), None),
        }

    def abort(self, messages: Sequence[TaskStaged]) -> None:
        """Drops stages by token, never by name, under which another driver may be staging. No effect after a commit."""
        if not messages:
            return
        with driver_gateway(self.options, [message.task_mark for message in messages]) as gateway:
            _drop(gateway, messages[0].name, [message.token for message in messages])


def _reads_digest(read: BatchInput | None, messages: Sequence[TaskStaged]) -> str | None:
    """Returns the digest of the batch's input, with its rows if the offsets do not determine them."""
    if read is None or read.reads is None:
        return None
    rows = sum(message.rows for message in messages)
    return read.reads.digest_with(rows, sum(message.fingerprint for message in messages) % (1 << 128))


def _drop(gateway: Gateway, name: BatchName, tokens: list[str]) -> None:
    try:
        gateway.abort(name, tokens, ABORT_TIMEOUT_MS)
    except OncegateError as error:
        log.warning("%s; the gateway drops its stages later", error)


def _check(messages: Sequence[TaskStaged], batch_id: int | None) -> None:
    first = messages[0]
    if any((m.name, m.run, m.read) != (first.name, first.run, first.read) for m in messages):
        raise BrokenMessages(
            f"the tasks of one write belong to different batches, among them {first.name}; nothing was written"
        )
    batch = first.batch if batch_id is None else str(batch_id)
    if batch_id is not None and first.name.version != batch:
        raise BrokenMessages(f"Spark commits batch {batch_id}, but the tasks wrote {first.name}; nothing was written")
    if first.read is not None and batch is not None and str(first.read.number) != batch:
        raise BrokenMessages(
            f"batch {batch} began while the newest entry in the checkpoint's offsets was {first.read.number}: another "
            "driver uses this checkpoint; nothing was written"
        )


NEW_APP = '.option("txnAppId", "<a new name>") writes everything from here on'
WAYS_ON: dict[type[OncegateError], str] = {
    SecondWrite: 'keep the first write of the batch as it is, give this one and each later one .option("writeId", '
    '"<a name for this write>"), and restart',
    BatchConflict: f'{NEW_APP}; .option("onReplayMismatch", "first_wins") keeps the published rows and drops '
    "this batch (after a restored or deleted checkpoint every batch up to the old number), but not if both "
    "inputs are known and differ",
    BatchForgotten: f"{NEW_APP}; or resume from a newer checkpoint",
}


def _with_ways_on(error: OncegateError) -> OncegateError:
    """Returns the error, with the lines of code that fix it."""
    ways = WAYS_ON.get(type(error))
    text = in_options(str(error))
    return type(error)(f"{text}. In Spark: {ways}" if ways else text, outcome=error.outcome, code=error.code)


def _counts(messages: Sequence[TaskStaged], done: Committed) -> WriteCounts:
    """Counts the rows of the attempts that Spark named; stages of other attempts were never part of its rows."""
    name, rows, is_new = messages[0].name, sum(message.rows for message in messages), done.outcome == "COMMITTED"
    return WriteCounts(
        mode="staged",
        target=name.topic,
        write_id=name.write_id,
        rows=rows,
        written=rows if is_new else 0,
        suppressed=0 if is_new else rows,
    )


def _tell(first: TaskStaged, done: Committed) -> None:
    log.info(
        "%s: %s rows=%d suppressed=%d takeovers=%d rows_before=%d",
        first.name,
        done.outcome,
        done.rows,
        done.suppressed_rows,
        done.takeover_rows,
        done.rows_before,
    )
    if done.outcome == "DUPLICATE" and done.suppressed_rows:
        why = f"a batch of this name is committed, and its rows stay: {REPEATED}"
        if done.higher_version is not None:
            why = f"version {done.higher_version} is committed, and lower ones are skipped, as in Delta Lake"
        log_all_suppressed(str(first.name), done.suppressed_rows, why)
    if done.warning:
        log.warning("%s: %s", first.name, done.warning)
    # In several writes of one batch the later ones find the rows of the first, which are the query's own.
    is_first = first.batch == "0" and first.by_query and done.first_of_app
    if is_first and done.rows_before > 0:
        log.warning(
            "%s is the first batch of a query that this gateway does not know, and the topic already had %d offsets in "
            "use. If the query's checkpoint was deleted, its rows are being published again; a txnAppId would have "
            "prevented this",
            first.name,
            done.rows_before,
        )
