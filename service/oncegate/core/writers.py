"""Identifies the writer of a request: the job, and the run, batch, stage, task and attempt, as far as the request names
them.

The writer is stored with what it wrote, only to determine causes (`core.causes`); it decides nothing. Its bytes are
JSON without blanks, with the members in this order. Entries of the ledger hold them.
"""

import json
from typing import NamedTuple

# Largest number of a stage, task or attempt: Spark's are below 2^31.
NUMBER_MAX = 2**31 - 1


class WriterId(NamedTuple):
    """A writer of rows or ids; parts that the request does not name are None.

    job: a query's id or a name; the same at each start.
    run: one start of the job.
    batch: a part of the job's input; the same for every run that reads it.
    stage, task: a part of the batch's work.
    stage_attempt, attempt: count the attempts of a stage, and those of a task within one attempt of its stage; they
    rise.
    serial: counts the attempts of all tasks of a run, in the order in which they start.
    speculation: a second attempt of a task may begin while the first is still running.
    """

    job: str
    run: str | None = None
    batch: str | None = None
    stage: int | None = None
    stage_attempt: int | None = None
    task: int | None = None
    attempt: int | None = None
    serial: int | None = None
    speculation: bool = False


def encode(writer: WriterId) -> bytes:
    """Returns a writer's bytes without the members that are None or False."""
    members = {name: value for name, value in writer._asdict().items() if value is not None and value is not False}
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes) -> WriterId:
    """Returns the writer in these bytes; ignores unknown members. Raises ValueError or TypeError if they hold none."""
    return WriterId(**{name: value for name, value in json.loads(data).items() if name in WriterId._fields})
