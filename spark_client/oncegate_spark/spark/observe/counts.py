"""What became of the rows of a batch, and how a write's `commit` tells it to the listener of its driver.

Spark runs `commit` in a process of its own, on the driver's machine. It leaves the counts of its write in a folder of
the listener, with the query's run and the batch: a replay is another run, so its sums have no count of an older one.
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
    """Says what became of the rows of one write of a batch, as its tasks counted them in this run of the query.

    mode        how it wrote: the option `write`
    target      the topic; with write=claim the sink
    write_id    the option `writeId`, which tells several staged writes of one batch to one topic apart
    rows        all that the tasks were given
    written     written by them now
    suppressed  dropped, because they are written already: by another write, an earlier run, or an attempt that failed
    own         written before by the very attempt: the same id twice, or a request whose reply was lost
    takeovers   of `written`: granted after a claim had run out, whose holder may have written them too
    conflicts   dropped although they are written with other payloads (onConflict=drop)
    unchecked   of `written`: granted while the ledger was down, so that nobody looked; they may be there twice
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
    """Says what became of the rows of one batch of a streaming query; the numbers are the sums of its `writes`.

    query, run  Spark's ids of the query and of this run of it; `name`: the query's name, None without one
    batch       Spark's number of the batch
    writes      one for each write, in the order in which they came to their end
    """

    query: str
    run: str
    name: str | None
    batch: int
    writes: tuple[WriteCounts, ...]

    @property
    def rows(self) -> int:
        """Rows that the tasks were given; where a batch writes twice, its rows count twice."""
        return sum(write.rows for write in self.writes)

    @property
    def written(self) -> int:
        """Rows that were written now."""
        return sum(write.written for write in self.writes)

    @property
    def suppressed(self) -> int:
        """Rows that were dropped, because they are written already."""
        return sum(write.suppressed for write in self.writes)

    @property
    def own(self) -> int:
        """Rows that the very attempt had written before."""
        return sum(write.own for write in self.writes)

    @property
    def takeovers(self) -> int:
        """Rows that were written after a claim of them had run out: they may be there twice."""
        return sum(write.takeovers for write in self.writes)

    @property
    def conflicts(self) -> int:
        """Rows that were dropped although they are written with other payloads."""
        return sum(write.conflicts for write in self.writes)

    @property
    def unchecked(self) -> int:
        """Rows that were written though nobody looked, for the ledger was down: they may be there twice."""
        return sum(write.unchecked for write in self.writes)


@dataclass(frozen=True)
class Mailbox:
    """Names where the counts of a write are left: the folder of a listener, the run and the batch of its query."""

    folder: str
    run: str
    batch: int


def mailbox_of(task: Task) -> Mailbox | None:
    """Where the counts of the task's write go; None where nobody observes it, or its batch is not known."""
    if task.observed is None or task.run is None or task.number is None:
        return None
    return Mailbox(task.observed, task.run, task.number)


def leave(mailbox: Mailbox | None, counts: WriteCounts) -> None:
    """Leave the counts of one write, on the driver, once it is done; a failure is only logged: the rows are written.

    Leaves nothing in a folder that is gone: its listener is closed.
    """
    if mailbox is None or not Path(mailbox.folder).is_dir():
        return
    text = json.dumps({"run": mailbox.run, "batch": mailbox.batch, "counts": asdict(counts)})
    name = f"{time.time_ns():020}-{uuid.uuid4().hex}"  # names sort by the order of the writes
    new = Path(mailbox.folder, f"{name}.new")
    try:
        new.write_text(text, "utf-8")
        new.rename(new.with_suffix(".json"))
    except OSError as error:
        log.warning("batch %d: its counts cannot be left in %s: %s", mailbox.batch, mailbox.folder, error)


def collect(folder: Path, run: str, upto: int | None) -> dict[int, tuple[WriteCounts, ...]]:
    """Take out what the writes of a run have left, by batch, oldest first: batches up to `upto`, all of them for None.

    Raises OSError where the folder's files cannot be read or removed.
    """
    counts: dict[int, tuple[WriteCounts, ...]] = {}
    for file in sorted(folder.glob("*.json")):
        left = json.loads(file.read_text("utf-8"))
        batch = left["batch"]
        if left["run"] == run and (upto is None or batch <= upto):
            counts[batch] = (*counts.get(batch, ()), WriteCounts(**left["counts"]))
            file.unlink()
    return dict(sorted(counts.items()))
