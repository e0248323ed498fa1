"""Holds what the writers share: the gateway of a task and of the driver, marks, and the error of a failed task."""

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

PRODUCERS_LOGGED = 10  # of those that a warning is for, one line each
REPEATED = "it is a replay of this batch, a re-run of the job"

log = logging.getLogger("oncegate_spark")
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class TaskMark:
    """Tells the driver the newest mark that a task has seen, the checkpoint beside which marks are kept, and who wrote:
    the job, its run and its batch."""

    checkpoint: str | None
    mark: str | None
    writer: WriterId | None = None


def task_gateway(options: Options, mark: str | None, task: Task) -> Gateway:
    """Make the gateway of one attempt of a task.

    It brings the newest mark that the driver knew when the batch began.
    """
    noted = task.notes.marks.get(options.namespace) if task.notes else None
    return _gateway(options, mark or noted, writer=writer_of(task, options.app, options.version))


def driver_gateway(options: Options, tasks: Iterable[TaskMark]) -> Gateway:
    """Make the gateway of commit and abort. It brings the newest mark that any task has seen."""
    newest, writer = marks.Newest(), None
    for task in tasks:
        newest.note(task.mark)
        writer = writer or task.writer
    return _gateway(options, newest.mark, writer=writer)


def planning_gateway(options: Options, timeout_ms: int | None = None) -> Gateway:
    """Make the gateway of a write before its tasks, for less time where that is said.

    It brings the mark that is kept beside the checkpoint.
    """
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
    """Read the mark kept beside a streaming query's checkpoint; None where there is none."""
    return marks.read(local_folder(options.checkpoint), options.namespace)


def task_mark(options: Options, task: Task, gateway: Gateway) -> TaskMark:
    """Return what a task tells the driver about the ledger."""
    writer = driver_of_task(writer_of(task, options.app, options.version))
    return TaskMark(options.checkpoint or (task.notes.checkpoint if task.notes else None), gateway.mark, writer)


def store_mark(options: Options, tasks: Iterable[TaskMark], mark: str | None) -> None:
    """Keep a mark beside each of the tasks' checkpoints; a failure is only logged."""
    for checkpoint in {task.checkpoint for task in tasks}:
        marks.keep(local_folder(checkpoint), options.namespace, mark)


def written_by(batch_id: int | None) -> str:
    """Return the words of a log line for a write: the batch of a stream, or a df.write."""
    return "df.write" if batch_id is None else f"batch {batch_id}"


def log_all_suppressed(who: str, rows: int, why: str) -> None:
    """Warn on the driver that nothing of a write took effect: Spark itself counts its rows as written."""
    log.warning(
        "%s: all %d rows are suppressed and none is written: %s. Spark still counts them as output", who, rows, why
    )


def log_conflicts(count: int, batch_id: int | None) -> None:
    """Warn on the driver of rows that onConflict=drop has dropped; logs nothing where there were none."""
    if count:
        log.warning(
            "%s: conflicts=%d rows dropped, whose ids are written with other payloads (onConflict=drop)",
            written_by(batch_id),
            count,
        )


def log_leading(each: Iterable[Mapping[str, int]], batch_id: int | None) -> None:
    """Warn on the driver of producers whose first rows another epoch has written; logs nothing where there are none."""
    counts: Counter[str] = Counter()
    for leading in each:
        counts.update(leading)
    for producer, rows in sorted(counts.items())[:PRODUCERS_LOGGED]:
        log.warning(
            "%s: the first %d rows of producer %s are suppressed: another epoch wrote their sequences. That is right "
            "after a replay or with a new checkpoint; where a topic was made again it loses rows, unless its id is "
            "compared (assign_sequences)",
            written_by(batch_id),
            rows,
            producer,
        )


def pipelined(work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
    """Yields each item with the result of `work` on it, in order; `items` makes the next one while `work` runs.

    `work` runs in one thread of its own, and never while an item is yielded or an error is raised: an error of `items`
    comes after the item before it, one of `work` instead of its item.
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
    """The next item, none at the end, or why there is none."""
    try:
        return [next(made)], None
    except StopIteration:
        return [], None
    except BaseException as error:
        return [], error


OutcomeOfError = Callable[[OncegateError], tuple[Outcome, str]]


@contextmanager
def task_errors(options: Options, task: Task, written: OutcomeOfError) -> Iterator[None]:
    """Turn an error of ours into TaskFailed: with the place, the cause and what was written, as `written` knows it
    then.
    """
    try:
        yield
    except TaskFailed:
        raise
    except OncegateError as error:
        outcome, ending = written(error)
        where = f"partition {task.partition}, attempt {task.attempt}"
        cause = str(error).removesuffix(NOTHING)  # what the whole task has written follows instead
        cause = in_options(cause) + filter_line(error)
        text = f"write={options.write} through {options.url}, {where}: {cause}; {ending}"
        raise TaskFailed(text, outcome=outcome, code=error.code) from error
