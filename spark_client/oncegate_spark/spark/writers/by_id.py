"""What `write=ids` and `write=claim` share: the report of a task, and what the driver does with the reports."""

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
    """Rows of one task, or of all tasks of a batch.

    row_count   all that the task had
    written     by it, now
    own         its own already: the same id twice in it, or a request whose reply was lost
    suppressed  dropped because they are written elsewhere
    takeovers   of `written`: granted after a claim had run out, whose holder may have written them too
    conflicts   dropped although they are written with other payloads
    unchecked   of `written`: granted while the ledger was down, so that nobody looked; they may be there twice
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
    """What one task tells the driver. `read`: the number of the batch's input, None where nothing is acked.

    `leading`: how many of the first rows of each producer another epoch has written.
    """

    task_mark: TaskMark
    ack: AckPart | None
    read: int | None
    mailbox: Mailbox | None = None
    leading: Mapping[str, int] = field(default_factory=dict)


class ByIdWriter:
    """Base of the writers whose rows are known by ids or sequences; each row is done when its task is."""

    def __init__(self, options: Options, read: BatchInput | None, fit: Fit = AS_THEY_COME) -> None:
        self.options = options
        self.fit = fit
        self.mark = stored_mark(options)
        self.source = read if options.has_driver else None
        self.read = self.source.number if self.source else None

    def check_batch(self, task: Task) -> None:
        """Raises BrokenMessages where the task's batch is not the one that its input was read for."""
        check_batch(self.read, batch_number(task))

    def report(
        self, task: Task, gateway: Gateway, upto: dict[str, int], leading: Mapping[str, int], **counts: int
    ) -> TaskReport:
        """The task's message. `upto`: the last sequence of each producer it has met; `counts`: as in `RowCounts`."""
        mark, ack = task_mark(self.options, task, gateway), ack_part(self.options, task, upto, self.source)
        return TaskReport(**counts, task_mark=mark, ack=ack, read=self.read, mailbox=mailbox_of(task), leading=leading)

    def record(self, reports: Sequence[TaskReport], batch_id: int | None) -> RowCounts:
        """On the driver: keep marks and what is to be acked later, warn of conflicts; the sums of all tasks, which are
        left for a listener too.

        Raises BrokenMessages where the tasks' input is another batch's.
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
            why = f"each is written already, by its {self.options.known_by}"
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
    """The counts of all tasks together."""
    return RowCounts(
        row_count=sum(report.row_count for report in reports),
        written=sum(report.written for report in reports),
        own=sum(report.own for report in reports),
        suppressed=sum(report.suppressed for report in reports),
        takeovers=sum(report.takeovers for report in reports),
        conflicts=sum(report.conflicts for report in reports),
        unchecked=sum(report.unchecked for report in reports),
    )
