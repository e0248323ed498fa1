"""Names a batch of foreachBatch for a sink that the gateway does not write: its state, and a number that fences.

1. The attempt registers, which gives its fence. 2. The gateway says whether the name is committed. 3. The function
writes. 4. The name is committed, with the digest of the batch's input and no rows. Who died between 3 and 4 has
written: whoever comes next finds the batch OPEN and sees in the sink itself, by the name beside the rows.
"""

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption, NoIdentity
from oncegate_spark.protocol import marks, names
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.names import WriterId
from oncegate_spark.protocol.outage import BLOCK, check_without_rows
from oncegate_spark.spark.checkpoint import BatchInput, DriverNotes, local_folder
from oncegate_spark.sync.gateway import Gateway

WRITE_ID = "foreach_batch"  # no write to a topic of the sink's name is taken for this one
UNKNOWN_INPUT = (
    "the input of this batch is unknown, so a deleted or restored checkpoint could not be told from a replay, and rows "
    'would be left out in silence. Give the query\'s own: foreach_batch(fn, named=…, checkpoint="…"); '
    "nothing was written"
)

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class NamedBatch:
    """Names one batch of one job for one sink, and this attempt at it.

    name    the same text at every attempt, and no other batch's: `<app>@<sink>/<number>`
    state   OPEN: the gateway knows of no attempt that has written it to the end; one may have, and died before it
            could say so. COMMITTED: the function has returned for this name and this input
    fence   this attempt's number: greater than those of all attempts before, at this batch or another one of `job`
    job     `<app>@<sink>`, in which numbers and fences grow
    number  Spark's batch id
    """

    name: str
    state: Literal["OPEN", "COMMITTED"]
    fence: int
    job: str
    number: int


@dataclass(frozen=True)
class NamedBatches:
    """Says where the batches of a job are named, and for which sink.

    sink     any name for the place that is written to: letters, digits, `_ . -`
    app      names the job, also after its checkpoint was deleted; without it the query's id does
    replays  the function is called for committed batches too, with that state: for a sink that may have lost them
    on_down  while the gateway is down, before the function is called: "block" tries for `timeout_ms`, "fail" fails the
             batch at once. The commit behind it is tried for `timeout_ms` in either case
    """

    url: str
    sink: str
    namespace: str = "default"
    app: str | None = None
    replays: bool = False
    timeout_ms: int = TIMEOUT_MS
    credentials: Credentials = NONE
    on_down: str = BLOCK

    def __post_init__(self) -> None:
        check_without_rows(self.on_down)
        if not names.TOPIC.fullmatch(self.sink):
            raise BadOption(f"sink {self.sink!r}: letters, digits, _ . -, at most 249; nothing was written")

    @contextmanager
    def begun(self, notes: DriverNotes, query: str | None) -> Iterator[NamedBatch | None]:
        """Around the function: register, look, and commit once it has returned; None where it is not to be called.

        Raises BatchConflict where the name is committed with other input, BadOption where the input is unknown,
        NoIdentity without a name: before the function. After it nothing is committed where it raised.
        """
        app, read = self.app or query, notes.input
        if app is None:
            raise NoIdentity('nothing names this batch: add NamedBatches(app="<a name for this job>")')
        if read is None:
            raise BadOption(UNKNOWN_INPUT)
        name, job = names.BatchName(app, str(read.number), self.sink, WRITE_ID), f"{app}@{self.sink}"
        with Gateway(
            self.url,
            self.namespace,
            timeout_ms=self.timeout_ms,
            mark=notes.marks.get(self.namespace),
            credentials=self.credentials,
            on_down=self.on_down,
            writer=WriterId(job=query or app, run=notes.run, batch=str(read.number)),
        ) as gateway:
            fence = gateway.driver(job).register().epoch
            is_committed = gateway.abort(name, ())
            if is_committed:  # whether this is its replay, or another input under its number
                gateway.commit(name, _order(read, notes.run))
            batch = NamedBatch(f"{job}/{read.number}", "COMMITTED" if is_committed else "OPEN", fence, job, read.number)
            if is_committed and not self.replays:
                log.info("%s is committed: its function has returned before, and is not called again", batch.name)
                yield None
            else:
                yield batch
            if not is_committed:
                gateway.commit(name, _order(read, notes.run))
            marks.keep(local_folder(notes.checkpoint), self.namespace, gateway.mark)


def _order(read: BatchInput, run: str | None) -> dict[str, object]:
    """A commit without rows: what it names is elsewhere."""
    return {
        "run": run,
        "nonce": uuid.uuid4().hex,
        "winners": [],
        "digest": read.digest,
        "previous_digest": read.previous,
        "reads_digest": read.reads.digest if read.reads is not None and read.reads.is_whole else None,
        "on_replay_mismatch": "fail",
        "source_offsets": read.offsets,
    }
