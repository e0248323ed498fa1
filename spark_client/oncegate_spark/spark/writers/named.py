"""Named batches of foreachBatch for external sinks: the state of a batch, and a fencing number.

1. The attempt registers, which gives its fence. 2. The gateway returns whether the name is committed. 3. The function
writes. 4. The name is committed, with the digest of the batch's input and no rows. An attempt that dies between 3 and 4
has written: the next one gets the state OPEN, and checks in the sink itself, by the name stored with the rows.
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

WRITE_ID = "foreach_batch"  # distinguishes it from writes to a topic with the sink's name
UNKNOWN_INPUT = (
    "the input of this batch is unknown: a deleted or restored checkpoint would look like a replay, and rows would be "
    'skipped silently. Pass the query\'s checkpoint: foreach_batch(fn, named=…, checkpoint="…"); '
    "nothing was written"
)

log = logging.getLogger("oncegate_spark")


@dataclass(frozen=True)
class NamedBatch:
    """One batch of a job for one sink, and this attempt at it.

    name    the same text for every attempt, and for no other batch: `<app>@<sink>/<number>`
    state   OPEN: no attempt is known to have finished it; one may have written everything and died before its
        commit.
            COMMITTED: the function has returned for this name and this input
    fence   number of this attempt, greater than those of all earlier attempts at any batch of `job`
    job     `<app>@<sink>`, within which numbers and fences increase
    number  Spark's batch id
    """

    name: str
    state: Literal["OPEN", "COMMITTED"]
    fence: int
    job: str
    number: int


@dataclass(frozen=True)
class NamedBatches:
    """Gateway, sink and job of named batches.

    sink     any name for the external sink: letters, digits, `_ . -`
    app      names the job, even after its checkpoint was deleted; by default the query's id
    replays  also calls the function for committed batches: for a sink that may have lost them
    on_down  while the gateway is down, before the function is called: "block" retries for `timeout_ms`, "fail"
        fails
             the batch at once. The commit afterwards always retries for `timeout_ms`
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
            raise BadOption(f"sink {self.sink!r} must be at most 249 of letters, digits, _ . -; nothing was written")

    @contextmanager
    def begun(self, notes: DriverNotes, query: str | None) -> Iterator[NamedBatch | None]:
        """Runs around the function: registers, looks the name up, and commits it afterwards; yields None to skip the
        function.

        Raises BatchConflict if the name is committed with other input, BadOption if the input is unknown, NoIdentity
        without a name: all before the function. If the function raises, nothing is committed.
        """
        app, read = self.app or query, notes.input
        if app is None:
            raise NoIdentity('this batch has no name: add NamedBatches(app="<name of this job>"); nothing was written')
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
            if is_committed:  # raises BatchConflict unless this is its replay
                gateway.commit(name, _order(read, notes.run))
            batch = NamedBatch(f"{job}/{read.number}", "COMMITTED" if is_committed else "OPEN", fence, job, read.number)
            if is_committed and not self.replays:
                log.info("%s is committed: its function returned before, and is skipped", batch.name)
                yield None
            else:
                yield batch
            if not is_committed:
                gateway.commit(name, _order(read, notes.run))
            marks.keep(local_folder(notes.checkpoint), self.namespace, gateway.mark)


def _order(read: BatchInput, run: str | None) -> dict[str, object]:
    """Returns a commit without rows: they are in the external sink."""
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
