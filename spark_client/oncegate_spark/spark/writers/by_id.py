"""Base of `write=ids` and `write=claim`: the report of a task, and its evaluation on the driver."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oncegate_spark.protocol.outage import warn_unchecked
from oncegate_spark.spark.acks import AckPart, ack_part, batch_number, check_batch, note
from oncegate_spark.spark.checkpoint import BatchInput
from oncegate_spark.spark.observe.counts import Mailbox, WriteCounts, leave, mailbox_of
from oncegate_spark.spark.options import Options
from oncegate_spark.spark.task_identity import Task
from oncegate_spark.spark.writers.columns.fitting import AS_THEY_COME, Fit
from oncegate_spark.spark.writers.common import (
    REPEATED,
    TaskMark,
    log_all_suppressed,
    log_conflicts,
    log_leading,
    store_mark,
    stored_mark,
    task_mark,
    written_by,
)
from oncegate_spark.sync.gateway import Gateway


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """Row counts of one task, or of all tasks of a batch.

    row_count   rows of the task
    written     written by it now
    own         written by it before: a repeated id, or a request whose reply was lost
    suppressed  dropped because they are written elsewhere
    takeovers   of `written`: the lease of an earlier claim had expired, whose holder may have written them too
    conflicts   dropped although they are written with other payloads
    unchecked   of `written`: granted without a look-up while the ledger was down; they may be duplicates
    """

    row_count: int
    written: int
    own: int = 0
    suppressed: int
    takeovers: int
    conflicts: int
    unchecked: int = 0


@dataclass(frozen=True, kw_only=True)
class TaskReport(RowCounts):
    """Result of one task for the driver.

    `read`: number of the batch's input, None if nothing is acked. `leading`: number of first rows of each producer that
    another epoch has written.
    """

    task_mark: TaskMark
    ack: AckPart | None
    read: int | None
    mailbox: Mailbox | None = None
    leading: Mapping[str, int] = field(default_factory=dict)


class ByIdWriter:
    """Base of the writers that recognise rows by ids or sequences; each row is done when its task is."""

    def __init__(self, options: Options, read: BatchInput | None, fit: Fit = AS_THEY_COME) -> None:
        self.options = options
        self.fit = fit
        self.mark = stored_mark(options)
        self.source = read if options.has_driver else None
        self.read = self.source.number if self.source else None

    def check_batch(self, task: Task) -> None:
        """Raises BrokenMessages if the task's batch is not the one whose input was read."""
        check_batch(self.read, batch_number(task))

    def report(
        self, task: Task, gateway: Gateway, upto: dict[str, int], leading: Mapping[str, int], **counts: int
    ) -> TaskReport:
        """Returns the task's message. `upto`: last sequence of each producer; `counts`: as in `RowCounts`."""
        mark, ack = task_mark(self.options, task, gateway), ack_part(self.options, task, upto, self.source)
        return TaskReport(**counts, task_mark=mark, ack=ack, read=self.read, mailbox=mailbox_of(task), leading=leading)

    def record(self, reports: Sequence[TaskReport], batch_id: int | None) -> RowCounts:
        """On the driver: stores ledger positions and acks, logs warnings, and reports the counts to a listener; returns
        their sums.

        Raises BrokenMessages if the tasks' input is another batch's.
        """
        for report in reports:
            check_batch(report.read, batch_id)
        marks = [report.task_mark for report in reports]
        for message in marks:
            store_mark(self.options, marks, message.mark)
        note(self.options, [report.ack for report in reports], batch_id)
        total = sums(reports)
        if reports:
            leave(reports[0].mailbox, self._counts(total))
        log_conflicts(total.conflicts, batch_id)
        log_leading([report.leading for report in reports], batch_id)
        warn_unchecked(total.unchecked, written_by(batch_id))
        if total.row_count and total.suppressed == total.row_count:
            why = f"each is already written, by its {self.options.known_by}"
            log_all_suppressed(written_by(batch_id), total.row_count, f"{why}: {REPEATED}, or another write of them")
        return total

    def _counts(self, total: RowCounts) -> WriteCounts:
        options = self.options
        return WriteCounts(
            mode=options.write,
            target=options.topic if options.write == "ids" else options.sink,
            rows=total.row_count,
            written=total.written,
            suppressed=total.suppressed,
            own=total.own,
            takeovers=total.takeovers,
            conflicts=total.conflicts,
            unchecked=total.unchecked,
        )


def sums(reports: Sequence[TaskReport]) -> RowCounts:
    return RowCounts(
        row_count=sum(report.row_count for report in reports),
        written=sum(report.written for report in reports),
        own=sum(report.own for report in reports),
        suppressed=sum(report.suppressed for report in reports),
        takeovers=sum(report.takeovers for report in reports),
        conflicts=sum(report.conflicts for report in reports),
        unchecked=sum(report.unchecked for report in reports),
    )
