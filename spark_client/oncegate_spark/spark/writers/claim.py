"""Write mode claim: the tasks write to any sink themselves. They claim ids, write the granted rows, and complete the
claim.

At least once: a duplicate requires an attempt that wrote and died before it completed, and is counted as a takeover.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TypeVar

import pyarrow as pa

from oncegate_spark.errors import OncegateError
from oncegate_spark.spark import sinks
from oncegate_spark.spark.acks import driver_of, scope_of
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.by_id import ByIdWriter, TaskReport, sums
from oncegate_spark.spark.writers.claim_loop import ClaimProgress, Settler, Write
from oncegate_spark.spark.writers.common import (
    task_errors,
    task_gateway,
    written_by,
)
from oncegate_spark.spark.writers.sequenced import Lanes, LaneSettler
from oncegate_spark.spark.writers.settler import AskingSettler
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")
T = TypeVar("T")
R = TypeVar("R")


class SinkFailed(OncegateError):
    """The user's own code raised. How much its write() has written is unknown; the task's message reports that."""

    code = "SINK"


class ClaimWriter(ByIdWriter):
    """Passes granted rows to a sink, and completes them once it returns."""

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> TaskReport:
        """In a task: claims, writes and completes its rows. Raises TaskFailed, which reports the rows written."""
        options, done = self.options, ClaimProgress()
        context = sinks.SinkContext(token, task.partition, task.attempt, options.namespace, options.topic, options.raw)
        with (
            task_errors(options, task, lambda error: done.outcome("this task")),
            task_gateway(options, self.mark, task) as gateway,
            self._settling(gateway, token, task, context, done) as settler,
        ):
            self.check_batch(task)
            for batch in self.fit.applied(batches, task):
                settler.settle(batch)
            return self.report(
                task,
                gateway,
                settler.upto,
                settler.leading if isinstance(settler, LaneSettler) else {},
                row_count=done.row_count,
                written=done.written,
                suppressed=done.suppressed,
                takeovers=done.takeovers,
                conflicts=done.conflicts,
                unchecked=done.unchecked,
            )

    @contextmanager
    def _settling(
        self, gateway: Gateway, token: str, task: Task, context: sinks.SinkContext, done: ClaimProgress
    ) -> Iterator[Settler | LaneSettler]:
        """Opens the sink and yields the settler: by ids under one attempt, or by sequences under a
        lane per producer.
        """
        options, made = self.options, sinks.load(self.options.sink)()
        if isinstance(made, sinks.Deliver):
            sink = _named(made.open)(context)
            with (
                closing(sink),
                gateway.attempt(token, scope_of(options, task), id_set=options.id_set) as attempt,
                closing(AskingSettler(attempt, made, sink, options, done)) as by_asking,
            ):
                yield by_asking
            return
        with closing(made):
            _named(made.open)(context)
            with self._by_rows(gateway, token, task, _named(made.write), done) as settler:
                yield settler

    @contextmanager
    def _by_rows(
        self, gateway: Gateway, token: str, task: Task, write: Write, done: ClaimProgress
    ) -> Iterator[Settler | LaneSettler]:
        options = self.options
        if options.lane_names is not None:
            driver = driver_of(options, task)
            lanes = Lanes(gateway, options.lane_names, options.target, driver, token, options.lease_ms)
            with closing(LaneSettler(gateway, lanes, write, done)) as settler:
                yield settler
            return
        payloads = (options.digest_names, options.on_conflict)
        with (
            gateway.attempt(token, scope_of(options, task), id_set=options.id_set) as attempt,
            closing(Settler(attempt, options.id_names, write, done, options.lease_ms, *payloads)) as by_id,
        ):
            yield by_id

    def commit(self, messages: Sequence[TaskReport], batch_id: int | None) -> None:
        """On the driver: stores and logs the results; every row was done when its task was."""
        total = self.record(messages, batch_id)
        log.info(
            "%s by %s: rows=%d written=%d suppressed=%d takeovers=%d (a row granted by takeover may be written twice)",
            written_by(batch_id),
            self.options.known_by,
            total.row_count,
            total.written,
            total.suppressed,
            total.takeovers,
        )

    def abort(self, messages: Sequence[TaskReport]) -> None:
        """Undoes nothing: completed rows stay written, and others are free once their lease expires."""
        log.warning("the write failed; %d rows of it stay written", sums(messages).written)


def _named(call: Callable[[T], R]) -> Callable[[T], R]:
    """Wraps a call of the sink, so that its errors name the sink."""

    def named(argument: T) -> R:
        try:
            return call(argument)
        except OncegateError:
            raise
        except Exception as error:
            raise SinkFailed(f"the sink's {call.__name__}() raised {type(error).__name__}: {error}") from error

    return named
