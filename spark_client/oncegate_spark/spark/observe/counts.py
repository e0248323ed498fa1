"""Row counts of a batch, and their transfer from a write's `commit` to the driver's listener.

Spark runs `commit` in a process of its own, on the driver's machine. It leaves the counts in a folder of the listener,
with the query's run and the batch. A replay is another run, so counts of an older run are never added.
"""

import json
import logging
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from oncegate_spark.spark.task_identity import Task

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True, kw_only=True)
class WriteCounts:
    """Row counts of one write of a batch in this run of the query.

    mode        the option `write`
    target      the topic; with write=claim the sink
    write_id    the option `writeId`, which distinguishes several staged writes of one batch to one topic
    rows        rows of all tasks
    written     written by them now
    suppressed  dropped because they are written already: by another write, an earlier run, or a failed attempt
    own         written before by the same attempt: a repeated id, or a request whose reply was lost
    takeovers   of `written`: the lease of an earlier claim had expired, whose holder may have written them too
    conflicts   dropped although they are written with other payloads (onConflict=drop)
    unchecked   of `written`: granted without a look-up while the ledger was down; they may be duplicates
    """

    mode: str
    target: str
    write_id: str = ""
    rows: int
    written: int
    suppressed: int = 0
    own: int = 0
    takeovers: int = 0
    conflicts: int = 0
    unchecked: int = 0


@dataclass(frozen=True, kw_only=True)
class BatchCounts:
    """Row counts of one batch of a streaming query; the totals are sums of its `writes`.

    query, run  Spark's ids of the query and of this run; `name`: the query's name, None without one
    batch       Spark's number of the batch
    writes      one per write, in the order of their ends
    """

    query: str
    run: str
    name: str | None
    batch: int
    writes: tuple[WriteCounts, ...]

    @property
    def rows(self) -> int:
        """Number of rows of the tasks; a batch that writes twice counts its rows twice."""
        return sum(write.rows for write in self.writes)

    @property
    def written(self) -> int:
        """Number of rows written now."""
        return sum(write.written for write in self.writes)

    @property
    def suppressed(self) -> int:
        """Number of rows dropped because they are written already."""
        return sum(write.suppressed for write in self.writes)

    @property
    def own(self) -> int:
        """Number of rows that the same attempt had written before."""
        return sum(write.own for write in self.writes)

    @property
    def takeovers(self) -> int:
        """Number of rows written after the lease of an earlier claim had expired: they may be duplicates."""
        return sum(write.takeovers for write in self.writes)

    @property
    def conflicts(self) -> int:
        """Number of rows dropped although they are written with different payloads."""
        return sum(write.conflicts for write in self.writes)

    @property
    def unchecked(self) -> int:
        """Number of rows written without a look-up while the ledger was down: they may be duplicates."""
        return sum(write.unchecked for write in self.writes)


@dataclass(frozen=True)
class Mailbox:
    """Destination of the counts of a write: a listener's folder, and the run and batch of its query."""

    folder: str
    run: str
    batch: int


def mailbox_of(task: Task) -> Mailbox | None:
    """Returns the destination of a task's counts; None without an observer, or if its batch is unknown."""
    if task.observed is None or task.run is None or task.number is None:
        return None
    return Mailbox(task.observed, task.run, task.number)


def leave(mailbox: Mailbox | None, counts: WriteCounts) -> None:
    """Stores the counts of one write, on the driver, once it is done. A failure is only logged: the rows are written.

    Does nothing if the folder is gone, since its listener is closed.
    """
    if mailbox is None or not Path(mailbox.folder).is_dir():
        return
    text = json.dumps({"run": mailbox.run, "batch": mailbox.batch, "counts": asdict(counts)})
    name = f"{time.time_ns():020}-{uuid.uuid4().hex}"  # names sort in the order of the writes
    new = Path(mailbox.folder, f"{name}.new")
    try:
        new.write_text(text, "utf-8")
        new.rename(new.with_suffix(".json"))
    except OSError as error:
        log.warning("batch %d: its counts cannot be stored in %s: %s", mailbox.batch, mailbox.folder, error)


def collect(folder: Path, run: str, upto: int | None) -> dict[int, tuple[WriteCounts, ...]]:
    """Returns and removes the counts of a run, by batch, oldest first: batches up to `upto`, or all for None.

    Raises OSError if the folder's files cannot be read or removed.
    """
    counts: dict[int, tuple[WriteCounts, ...]] = {}
    for file in sorted(folder.glob("*.json")):
        left = json.loads(file.read_text("utf-8"))
        batch = left["batch"]
        if left["run"] == run and (upto is None or batch <= upto):
            counts[batch] = (*counts.get(batch, ()), WriteCounts(**left["counts"]))
            file.unlink()
    return dict(sorted(counts.items()))
