"""Decides why an id, a sequence or a row came again: the causes that duplicates are counted by.

Rule 1: a cause changes no answer. It is looked up for what was decided to be a duplicate, and for nothing else.
Rule 2: what is not known is UNKNOWN, never the likeliest.

A request may name its writer: the job, and which run, batch, stage, task and attempt of it. The ledger keeps that
beside what the request wrote, so the writer of a duplicate is compared with the writer of the first, field by field.
No part of a writer is ever part of an id, a token or a name: Spark's numbers restart with each driver.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import product
from typing import NamedTuple


class Cause(IntEnum):
    """Names why an id, a sequence or a row came again; as small numbers, for arrays."""

    CLIENT_RETRY = 0
    TASK_RETRY = 1
    STAGE_RETRY = 2
    SPECULATION = 3
    BATCH_REPLAY = 4
    ZOMBIE = 5
    OTHER_JOB = 6
    UPSTREAM = 7
    UNKNOWN = 8


# The evidence of each cause.
KNOWN_FROM: dict[Cause, str] = {
    Cause.CLIENT_RETRY: "the attempt that wrote it repeats its call: a reply was lost",
    Cause.TASK_RETRY: (
        "a later attempt of the task that wrote it; or another attempt under the same batch scope, or staged for the "
        "same batch, or a producer's sequence of an earlier epoch, where the writers do not say more"
    ),
    Cause.STAGE_RETRY: "the same task in a later attempt of its stage",
    Cause.SPECULATION: (
        "another attempt of the task, where the job lets attempts run side by side (`spark.speculation`); a task that "
        "failed and runs again under that setting counts here too, for the two look alike"
    ),
    Cause.BATCH_REPLAY: (
        "another run of the job writes the batch again, or the same run in another stage; or a committed name is "
        "committed again: the rows of that commit"
    ),
    Cause.ZOMBIE: (
        "an older run, stage attempt or task attempt, after a newer one wrote it; or sequences that an attempt of a "
        "fenced epoch brings, whether they were written or not"
    ),
    Cause.OTHER_JOB: "a writer of another job wrote it; or an owner took the id, or takes what somebody else wrote",
    Cause.UPSTREAM: (
        "its source has it twice: one request names the id twice, one attempt in two of its calls, one stage in two of "
        "its tasks, or one job in two of its batches"
    ),
    Cause.UNKNOWN: "another attempt wrote it, and one of the two does not name its writer, or not as far as the other",
}


class WriterField(IntEnum):
    """Names the fields by which writers are compared, from the widest to the narrowest; SERIAL only helps."""

    JOB = 0
    BATCH = 1
    RUN = 2
    STAGE = 3
    TASK = 4
    STAGE_ATTEMPT = 5
    ATTEMPT = 6
    SERIAL = 7


class Relation(IntEnum):
    """Says how a field of the present writer is to the same field of the first. ONE: only one of the two names it."""

    NEITHER = 0
    SAME = 1
    ONE = 2
    OTHER = 3
    OLDER = 4
    NEWER = 5


# Fields that are names have no order, but for runs: the ledger knows which one wrote first.
ORDERED = (WriterField.RUN, WriterField.STAGE_ATTEMPT, WriterField.ATTEMPT, WriterField.SERIAL)
_OPTIONAL = (Relation.NEITHER, Relation.SAME, Relation.ONE)
RELATIONS: dict[WriterField, tuple[Relation, ...]] = {
    field: (*_OPTIONAL, *((Relation.OLDER, Relation.NEWER) if field in ORDERED else (Relation.OTHER,)))
    for field in WriterField
} | {WriterField.JOB: (Relation.SAME, Relation.OTHER)}


# The relation of the stage's attempts where neither names its own, by the relations of SERIAL and ATTEMPT: Spark does
# not tell it to Python. Within one attempt of a stage, an attempt of a task that starts later has a greater number.
STAGE_ATTEMPT: dict[tuple[Relation, Relation], Relation] = {
    (Relation.NEWER, Relation.SAME): Relation.NEWER,
    (Relation.NEWER, Relation.OLDER): Relation.NEWER,
    (Relation.OLDER, Relation.SAME): Relation.OLDER,
    (Relation.OLDER, Relation.NEWER): Relation.OLDER,
}


class CauseRow(NamedTuple):
    """Holds one row of `CAUSES`: the cause where `field` is in `relation`. speculates: None: in either case."""

    field: WriterField
    relation: Relation
    cause: Cause
    reason: str
    speculates: bool | None = None


# Tried from the top, of writers that both say something: the first row that fits. What fits none is the same so far.
CAUSES: tuple[CauseRow, ...] = (
    CauseRow(WriterField.JOB, Relation.OTHER, Cause.OTHER_JOB, "a job is its name: two names, two jobs"),
    CauseRow(
        WriterField.BATCH,
        Relation.OTHER,
        Cause.UPSTREAM,
        "a batch is read once: the source had it again for a later one",
    ),
    CauseRow(WriterField.BATCH, Relation.ONE, Cause.UNKNOWN, "one of the two may be of any batch"),
    CauseRow(
        WriterField.RUN, Relation.OLDER, Cause.ZOMBIE, "a run that wrote before the newer one did is still at work"
    ),
    CauseRow(
        WriterField.RUN, Relation.NEWER, Cause.BATCH_REPLAY, "a job that starts again writes what was not committed"
    ),
    CauseRow(WriterField.RUN, Relation.ONE, Cause.UNKNOWN, "one of the two may be of any run"),
    CauseRow(
        WriterField.STAGE, Relation.OTHER, Cause.BATCH_REPLAY, "the batch is computed, and written, a second time"
    ),
    CauseRow(WriterField.STAGE, Relation.ONE, Cause.UNKNOWN, "one of the two may be of any stage"),
    CauseRow(WriterField.TASK, Relation.OTHER, Cause.UPSTREAM, "two tasks of a stage have different rows of its input"),
    CauseRow(WriterField.TASK, Relation.ONE, Cause.UNKNOWN, "one of the two may be any task"),
    CauseRow(
        WriterField.STAGE_ATTEMPT, Relation.OLDER, Cause.ZOMBIE, "tasks of an abandoned stage attempt run to their end"
    ),
    CauseRow(
        WriterField.STAGE_ATTEMPT, Relation.NEWER, Cause.STAGE_RETRY, "a stage runs again where its input was lost"
    ),
    CauseRow(
        WriterField.STAGE_ATTEMPT, Relation.ONE, Cause.UNKNOWN, "one of the two may be of any attempt of the stage"
    ),
    CauseRow(WriterField.ATTEMPT, Relation.OLDER, Cause.SPECULATION, "both run, as the job allows", True),
    CauseRow(WriterField.ATTEMPT, Relation.OLDER, Cause.ZOMBIE, "an attempt that was given up is still at work", False),
    CauseRow(WriterField.ATTEMPT, Relation.NEWER, Cause.SPECULATION, "both may run, as the job allows", True),
    CauseRow(
        WriterField.ATTEMPT,
        Relation.NEWER,
        Cause.TASK_RETRY,
        "the next attempt starts where the one before failed",
        False,
    ),
    CauseRow(WriterField.ATTEMPT, Relation.ONE, Cause.UNKNOWN, "one of the two may be any attempt"),
    CauseRow(WriterField.ATTEMPT, Relation.SAME, Cause.UPSTREAM, "one attempt, under two tokens, has different rows"),
    CauseRow(
        WriterField.ATTEMPT, Relation.NEITHER, Cause.TASK_RETRY, "the token is the attempt: the same work is done again"
    ),
)


def cause_of(relations: Mapping[WriterField, Relation], speculates: bool) -> Cause:
    """Returns the cause of the first row of `CAUSES` that fits."""
    return next(
        row.cause for row in CAUSES if relations[row.field] is row.relation and row.speculates in (None, speculates)
    )


def cases() -> Sequence[tuple[dict[WriterField, Relation], bool]]:
    """Returns every way in which two writers may be to each other, and whether the present one's job speculates."""
    compared = [field for field in WriterField if field is not WriterField.SERIAL]
    every = product(*(RELATIONS[field] for field in compared))
    return [
        (dict(zip(compared, relations, strict=True)), speculates) for relations in every for speculates in (False, True)
    ]
