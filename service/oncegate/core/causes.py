"""Decision table for the cause of a duplicate: why an id, a sequence or a row came again.

Rule 1: a cause changes no answer. It is determined only for requests that were already decided to be duplicates.
Rule 2: an unknown cause is UNKNOWN, never the likeliest one.

Theory of operation
===================

A request may name its writer: the job, and the run, batch, stage, task and attempt in it. The ledger stores the writer
with the rows or ids of the request. The writer of a duplicate is later compared with the first writer, field by field:
each field is a `WriterField`, and the result of its comparison a `Relation`. `CAUSES` is tried from the top, from the
widest field to the narrowest; the first row that matches gives the cause. A field that matches no row is equal so far,
and the next narrower one decides.

No field of a writer is ever part of an id, a token or a name: Spark's numbers restart with each driver.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import product
from typing import NamedTuple


class Cause(IntEnum):
    """The causes of duplicates, numbered from 0 for use in arrays."""

    CLIENT_RETRY = 0
    TASK_RETRY = 1
    STAGE_RETRY = 2
    SPECULATION = 3
    BATCH_REPLAY = 4
    ZOMBIE = 5
    OTHER_JOB = 6
    UPSTREAM = 7
    UNKNOWN = 8


# The evidence for each cause.
KNOWN_FROM: dict[Cause, str] = {
    Cause.CLIENT_RETRY: "the attempt that wrote it repeats its call: a reply was lost",
    Cause.TASK_RETRY: (
        "a later attempt of the task that wrote it; or, where the writers give no more detail, another attempt under "
        "the same batch scope, one staged for the same batch, or a producer's sequence of an earlier epoch"
    ),
    Cause.STAGE_RETRY: "the same task in a later attempt of its stage",
    Cause.SPECULATION: (
        "another attempt of the task, where the job lets attempts run side by side (`spark.speculation`); a task that "
        "failed and runs again under that setting counts here too, since the two cannot be distinguished"
    ),
    Cause.BATCH_REPLAY: (
        "another run of the job writes the batch again, or the same run in another stage; or a committed name is "
        "committed again: the rows of that commit"
    ),
    Cause.ZOMBIE: (
        "an older run, stage attempt or task attempt, after a newer one wrote it; or sequences from an attempt of a "
        "fenced epoch, whether or not they were written"
    ),
    Cause.OTHER_JOB: "a writer of another job wrote it; or an owner took the id, or takes another caller's id",
    Cause.UPSTREAM: (
        "its source has it twice: one request names the id twice, one attempt in two of its calls, one stage in two of "
        "its tasks, or one job in two of its batches"
    ),
    Cause.UNKNOWN: "another attempt wrote it, and one of the two writers is unnamed or named in less detail",
}


class WriterField(IntEnum):
    """The fields by which writers are compared, from the widest to the narrowest. SERIAL is only auxiliary."""

    JOB = 0
    BATCH = 1
    RUN = 2
    STAGE = 3
    TASK = 4
    STAGE_ATTEMPT = 5
    ATTEMPT = 6
    SERIAL = 7


class Relation(IntEnum):
    """How a field of the current writer compares with the same field of the first writer. ONE: only one of the two
    names it."""

    NEITHER = 0
    SAME = 1
    ONE = 2
    OTHER = 3
    OLDER = 4
    NEWER = 5


# Names have no order, except for runs: the ledger knows which run wrote first.
ORDERED = (WriterField.RUN, WriterField.STAGE_ATTEMPT, WriterField.ATTEMPT, WriterField.SERIAL)
_OPTIONAL = (Relation.NEITHER, Relation.SAME, Relation.ONE)
RELATIONS: dict[WriterField, tuple[Relation, ...]] = {
    field: (*_OPTIONAL, *((Relation.OLDER, Relation.NEWER) if field in ORDERED else (Relation.OTHER,)))
    for field in WriterField
} | {WriterField.JOB: (Relation.SAME, Relation.OTHER)}


# The relation of the stage attempts if neither writer names its own, by the relations of SERIAL and ATTEMPT: Spark does
# not expose the stage attempt to Python. Within one stage attempt, a task attempt that starts later has a greater
# number.
STAGE_ATTEMPT: dict[tuple[Relation, Relation], Relation] = {
    (Relation.NEWER, Relation.SAME): Relation.NEWER,
    (Relation.NEWER, Relation.OLDER): Relation.NEWER,
    (Relation.OLDER, Relation.SAME): Relation.OLDER,
    (Relation.OLDER, Relation.NEWER): Relation.OLDER,
}


class CauseRow(NamedTuple):
    """A row of `CAUSES`: the cause if `field` compares as `relation`. speculates: the row applies only then; None:
    always."""

    field: WriterField
    relation: Relation
    cause: Cause
    reason: str
    speculates: bool | None = None


# Tried from the top, for two named writers. The first row that matches decides; a field without a match is equal so
# far.
CAUSES: tuple[CauseRow, ...] = (
    CauseRow(WriterField.JOB, Relation.OTHER, Cause.OTHER_JOB, "a job is its name: two names, two jobs"),
    CauseRow(
        WriterField.BATCH,
        Relation.OTHER,
        Cause.UPSTREAM,
        "a batch is read once: the source delivered it again in a later one",
    ),
    CauseRow(WriterField.BATCH, Relation.ONE, Cause.UNKNOWN, "the unnamed one may be any batch"),
    CauseRow(WriterField.RUN, Relation.OLDER, Cause.ZOMBIE, "a run that wrote before the newer one is still active"),
    CauseRow(WriterField.RUN, Relation.NEWER, Cause.BATCH_REPLAY, "a restarted job writes its uncommitted batch again"),
    CauseRow(WriterField.RUN, Relation.ONE, Cause.UNKNOWN, "the unnamed one may be any run"),
    CauseRow(WriterField.STAGE, Relation.OTHER, Cause.BATCH_REPLAY, "the batch is computed and written a second time"),
    CauseRow(WriterField.STAGE, Relation.ONE, Cause.UNKNOWN, "the unnamed one may be any stage"),
    CauseRow(WriterField.TASK, Relation.OTHER, Cause.UPSTREAM, "two tasks of a stage have different rows of its input"),
    CauseRow(WriterField.TASK, Relation.ONE, Cause.UNKNOWN, "the unnamed one may be any task"),
    CauseRow(
        WriterField.STAGE_ATTEMPT, Relation.OLDER, Cause.ZOMBIE, "tasks of an abandoned stage attempt run to their end"
    ),
    CauseRow(
        WriterField.STAGE_ATTEMPT, Relation.NEWER, Cause.STAGE_RETRY, "a stage runs again where its input was lost"
    ),
    CauseRow(WriterField.STAGE_ATTEMPT, Relation.ONE, Cause.UNKNOWN, "the unnamed one may be any attempt of the stage"),
    CauseRow(WriterField.ATTEMPT, Relation.OLDER, Cause.SPECULATION, "both run, as the job allows", True),
    CauseRow(WriterField.ATTEMPT, Relation.OLDER, Cause.ZOMBIE, "an abandoned attempt is still active", False),
    CauseRow(WriterField.ATTEMPT, Relation.NEWER, Cause.SPECULATION, "both may run, as the job allows", True),
    CauseRow(
        WriterField.ATTEMPT,
        Relation.NEWER,
        Cause.TASK_RETRY,
        "the next attempt starts after the previous one failed",
        False,
    ),
    CauseRow(WriterField.ATTEMPT, Relation.ONE, Cause.UNKNOWN, "the unnamed one may be any attempt"),
    CauseRow(WriterField.ATTEMPT, Relation.SAME, Cause.UPSTREAM, "one attempt, under two tokens, has different rows"),
    CauseRow(
        WriterField.ATTEMPT, Relation.NEITHER, Cause.TASK_RETRY, "the token is the attempt: the same work is done again"
    ),
)


def cause_of(relations: Mapping[WriterField, Relation], speculates: bool) -> Cause:
    """Returns the cause of the first row of `CAUSES` that matches."""
    return next(
        row.cause for row in CAUSES if relations[row.field] is row.relation and row.speculates in (None, speculates)
    )


def cases() -> Sequence[tuple[dict[WriterField, Relation], bool]]:
    """Returns every combination of relations between two writers, each with and without speculation."""
    compared = [field for field in WriterField if field is not WriterField.SERIAL]
    every = product(*(RELATIONS[field] for field in compared))
    return [
        (dict(zip(compared, relations, strict=True)), speculates) for relations in every for speculates in (False, True)
    ]
