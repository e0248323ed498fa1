"""Write mode ids: the tasks append rows with ids or sequences to a topic; each takes effect once, whoever repeats it.

Claim, row and completion are one ledger entry, so no attempt can die in between. Rows are visible at once, not when the
batch ends: a failed write leaves its rows, and the retry drops them by their ids.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from oncegate_spark.errors import OncegateError, Outcome
from oncegate_spark.protocol import codecs
from oncegate_spark.protocol.answers import Written
from oncegate_spark.spark.acks import driver_of, scope_of
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.by_id import ByIdWriter, TaskReport, sums
from oncegate_spark.spark.writers.common import (
    pipelined,
    task_errors,
    task_gateway,
    written_by,
)
from oncegate_spark.spark.writers.sequenced import Lanes, produced
from oncegate_spark.sync.gateway import Gateway

log = logging.getLogger("oncegate_spark")


class IdsWriter(ByIdWriter):
    """Appends rows with new ids, or new sequences, to a topic of the gateway."""

    def write(self, batches: Iterator[pa.RecordBatch], token: str, task: Task) -> TaskReport:
        """In a task: appends its rows, each once. Raises TaskFailed, which reports the rows written."""
        options, done = self.options, Written()
        with (
            task_errors(options, task, lambda error: _outcome(error, done)),
            task_gateway(options, self.mark, task) as gateway,
        ):
            self.check_batch(task)
            write = self._by_id if options.lane_names is None else self._by_lane
            row_count, upto, leading = write(gateway, self.fit.applied(batches, task), token, task, done)
            return self.report(
                task,
                gateway,
                upto,
                leading,
                row_count=row_count,
                written=done.rows,
                own=done.own,
                suppressed=done.suppressed,
                takeovers=done.takeovers,
                conflicts=done.conflicts,
            )

    def _by_id(
        self, gateway: Gateway, batches: Iterator[pa.RecordBatch], token: str, task: Task, done: Written
    ) -> tuple[int, dict[str, int], dict[str, int]]:
        options, row_count = self.options, 0
        with gateway.attempt(token, scope_of(options, task), id_set=options.id_set) as attempt:

            def produce(rows: pa.Table) -> Written:
                return attempt.produce(
                    options.topic,
                    rows,
                    id_col=options.id_names,
                    key_col=options.key_names,
                    digest_cols=options.digest_names,
                    on_conflict=options.on_conflict,
                )

            for rows, answer in pipelined(produce, codecs.gathered(batches, codecs.IDS_MAX)):
                row_count += rows.num_rows
                done.count(answer)
        return row_count, {}, {}

    def _by_lane(
        self, gateway: Gateway, batches: Iterator[pa.RecordBatch], token: str, task: Task, done: Written
    ) -> tuple[int, dict[str, int], dict[str, int]]:
        options, row_count = self.options, 0
        assert options.lane_names is not None
        payload: dict[str, Any] = {"digest_cols": options.digest_names, "on_conflict": options.on_conflict}
        with closing(Lanes(gateway, options.lane_names, options.target, driver_of(options, task), token)) as lanes:
            for rows in codecs.gathered(batches, codecs.IDS_MAX):
                row_count += rows.num_rows
                for lane, part, _ in lanes.parts(rows):
                    sent = part.drop_columns(list(self.fit.used_up))
                    arguments = (options.topic, sent, options.lane_names[1], options.key_names)
                    for answer in produced(lane, *arguments, **payload):
                        done.add(answer)
            return row_count, lanes.upto, lanes.leading

    def commit(self, messages: Sequence[TaskReport], batch_id: int | None) -> None:
        """On the driver: stores and logs the results; every row was done when its task was."""
        total = self.record(messages, batch_id)
        log.info(
            "%s by %s to topic %s: rows=%d written=%d suppressed=%d own=%d takeovers=%d",
            written_by(batch_id),
            self.options.known_by,
            self.options.topic,
            total.row_count,
            total.written,
            total.suppressed,
            total.own,
            total.takeovers,
        )

    def abort(self, messages: Sequence[TaskReport]) -> None:
        """Undoes nothing: written rows stay, and a retry skips them."""
        log.warning(
            "write=ids: the write failed; at least %d rows of it stay in topic %s, and the retry drops them",
            sums(messages).written,
            self.options.topic,
        )


def _outcome(error: OncegateError, done: Written) -> tuple[Outcome, str]:
    """Returns the effect of a failed task: `error` covers its last request, `done` the rows before."""
    before = f"{done.rows + done.own} rows were written by this task before; its retry drops them"
    if error.outcome is Outcome.UNKNOWN:
        return Outcome.UNKNOWN, f"unknown: whether the last rows sent were written; {before}"
    if error.outcome is Outcome.WRITTEN or done.rows or done.own:
        return Outcome.WRITTEN, before
    return Outcome.NOT_WRITTEN, "nothing was written by this task"
