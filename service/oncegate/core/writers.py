"""Says who writes: the job, and which run, batch, stage, task and attempt of it, as far as the writer names them.

It is known beside what is written, for causes alone (`core.causes`), and decides nothing. Its bytes are JSON with its
members in this order, without blanks; entries of the ledger hold them.
"""

import json
from typing import NamedTuple

# A stage's, a task's and an attempt's number: Spark's are below 2^31.
NUMBER_MAX = 2**31 - 1


class WriterId(NamedTuple):
    """Names a writer; None: it does not say.

    job: what writes, the same at each start: a query's id, or a name. run: one start of the job. batch: a part of the
    job's input, the same whichever run reads it. stage, task: a part of the batch's work. stage_attempt, attempt:
    count the tries of a stage, and of a task within one try of its stage; later ones are greater. serial: counts the
    attempts of all tasks of a run, in the order in which they start. speculation: a second attempt of a task may begin
    while the first one runs.
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
    """Returns a writer's bytes; members that say nothing are left out."""
    said = {name: value for name, value in writer._asdict().items() if value is not None and value is not False}
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes) -> WriterId:
    """Returns the writer of these bytes; members that are not known are passed over. Raises ValueError, TypeError."""
    return WriterId(**{name: value for name, value in json.loads(data).items() if name in WriterId._fields})
