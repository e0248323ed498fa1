"""Shared by the writers: gateways of tasks and driver, ledger positions, log lines, and the error of a failed task."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import TypeVar

from oncegate_spark.errors import NOTHING, OncegateError, Outcome, TaskFailed
from oncegate_spark.protocol import marks
from oncegate_spark.protocol.names import WriterId
from oncegate_spark.spark.checkpoint import local_folder
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.options.advice import filter_line, in_options
from oncegate_spark.spark.task_identity import Task, driver_of_task, writer_of
from oncegate_spark.sync.gateway import Gateway

PRODUCERS_LOGGED = 10  # limit of the producers named in warnings, one line each
REPEATED = "it is a replay of this batch, or a re-run of the job"

log = logging.getLogger("oncegate_spark")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class TaskMark:
    """Ledger position and writer of a task, for the driver.

    checkpoint  where ledger positions are stored
    mark        newest position that the task has seen
    writer      job, run and batch
    """

    checkpoint: str | None
    mark: str | None
    writer: WriterId | None = None


def task_gateway(options: Options, mark: str | None, task: Task) -> Gateway:
    """Returns the gateway of one attempt of a task, with the ledger position that the driver knew
    when the batch began.
    """
    noted = task.notes.marks.get(options.namespace) if task.notes else None
    return _gateway(options, mark or noted, writer=writer_of(task, options.app, options.version))


def driver_gateway(options: Options, tasks: Iterable[TaskMark]) -> Gateway:
    """Returns the gateway of commit and abort, with the newest ledger position of all tasks."""
    newest, writer = marks.Newest(), None
    for task in tasks:
        newest.note(task.mark)
        writer = writer or task.writer
    return _gateway(options, newest.mark, writer=writer)


def planning_gateway(options: Options, timeout_ms: int | None = None) -> Gateway:
    """Returns the gateway for checks before the tasks, with the ledger position stored in the checkpoint."""
    return _gateway(options, stored_mark(options), timeout_ms)


def _gateway(
    options: Options, mark: str | None, timeout_ms: int | None = None, writer: WriterId | None = None
) -> Gateway:
    return Gateway(
        options.url,
        options.namespace,
        timeout_ms=options.timeout_ms if timeout_ms is None else timeout_ms,
        mark=mark,
        credentials=options.credentials,
        on_down=options.on_down,
        writer=writer,
    )


def stored_mark(options: Options) -> str | None:
    """Reads the ledger position stored in a streaming query's checkpoint; None if there is none."""
    return marks.read(local_folder(options.checkpoint), options.namespace)


def task_mark(options: Options, task: Task, gateway: Gateway) -> TaskMark:
    """Returns a task's ledger position and writer for the driver."""
    writer = driver_of_task(writer_of(task, options.app, options.version))
    return TaskMark(options.checkpoint or (task.notes.checkpoint if task.notes else None), gateway.mark, writer)


def store_mark(options: Options, tasks: Iterable[TaskMark], mark: str | None) -> None:
    """Stores a ledger position in each of the tasks' checkpoints; a failure is only logged."""
    for checkpoint in {task.checkpoint for task in tasks}:
        marks.keep(local_folder(checkpoint), options.namespace, mark)


def written_by(batch_id: int | None) -> str:
    """Returns the name of a write for a log line: the batch of a stream, or df.write."""
    return "df.write" if batch_id is None else f"batch {batch_id}"


def log_all_suppressed(who: str, rows: int, why: str) -> None:
    """Warns on the driver that nothing of a write took effect, since Spark counts its rows as written."""
    log.warning(
        "%s: all %d rows are suppressed and none was written: %s. Spark still counts them as output", who, rows, why
    )


def log_conflicts(count: int, batch_id: int | None) -> None:
    """Warns on the driver of rows dropped under onConflict=drop; silent for 0."""
    if count:
        log.warning(
            "%s: conflicts=%d rows dropped: their ids are written with other payloads (onConflict=drop)",
            written_by(batch_id),
            count,
        )


def log_leading(each: Iterable[Mapping[str, int]], batch_id: int | None) -> None:
    """Warns on the driver of producers whose leading rows another epoch has written."""
    counts: Counter[str] = Counter()
    for leading in each:
        counts.update(leading)
    for producer, rows in sorted(counts.items())[:PRODUCERS_LOGGED]:
        log.warning(
            "%s: the first %d rows of producer %s are suppressed: another epoch wrote their sequences. This is "
            "expected "
            "after a replay or with a new checkpoint; after a topic was deleted and created again rows are lost, "
            "unless "
            "its id is compared (assign_sequences)",
            written_by(batch_id),
            rows,
            producer,
        )


def pipelined(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Yields each item with the result of `work` on it, in order; the next item is produced while `work` runs.

    `work` runs in one thread of its own, and never while an item is being yielded or an error raised. An error of
    `items` is raised after the item before it, an error of `work` instead of its item.
    """
    made = iter(items)
    with ThreadPoolExecutor(1, "oncegate") as thread:
        under_way: tuple[T, Future[R]] | None = None
        while True:
            following, failed = _next(made)
            if under_way is not None:
                item, end = under_way
                yield item, end.result()
            if failed is not None:
                raise failed
            if not following:
                return
            under_way = following[0], thread.submit(copy_context().run, work, following[0])


def _next(made: Iterator[T]) -> tuple[list[T], BaseException | None]:
    """Returns the next item (no item at the end), and the error that prevented it."""
    try:
        return [next(made)], None
    except StopIteration:
        return [], None
    except BaseException as error:
        return [], error


OutcomeOfError = Callable[[OncegateError], tuple[Outcome, str]]


@contextmanager
def task_errors(options: Options, task: Task, written: OutcomeOfError) -> Iterator[None]:
    """Turns an error of the client into TaskFailed, with place, cause and the rows written according to `written`."""
    try:
        yield
    except TaskFailed:
        raise
    except OncegateError as error:
        outcome, ending = written(error)
        where = f"partition {task.partition}, attempt {task.attempt}"
        cause = str(error).removesuffix(NOTHING)  # replaced by the effect of the whole task
        cause = in_options(cause) + filter_line(error)
        text = f"write={options.write} through {options.url}, {where}: {cause}; {ending}"
        raise TaskFailed(text, outcome=outcome, code=error.code) from error
