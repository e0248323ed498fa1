"""Determines the causes of duplicates by comparing their writers with the first writers (table in `core.causes`).

A row keeps its claim's writer as eight words of 32 bits: hashes of names, and numbers plus 1; 0: unnamed. Two names
with one hash, one pair in 2^32, count as equal; the duplicate then gets a wrong cause.
"""

import zlib
from functools import lru_cache

import numpy as np

from oncegate.arraytypes import U8, U32
from oncegate.core.causes import CAUSES, ORDERED, STAGE_ATTEMPT, Cause, Relation, WriterField
from oncegate.core.writers import decode

# Words of a writer: one for each `WriterField`, in that order.
WORDS = len(WriterField)
# Jobs whose runs are kept in order, and runs of each: a zombie is a run or two late.
_JOBS_MOST, _RUNS_MOST = 4_096, 8
_TELLING = (WriterField.SERIAL, WriterField.ATTEMPT)
_NOBODY = np.zeros(WORDS, np.uint32)
_NOBODY.flags.writeable = False


# A task sends one writer with each of its requests, and some hundred tasks run at a time.
@lru_cache(maxsize=4_096)
def _said(data: bytes) -> tuple[U32, bool]:
    try:
        writer = decode(data)
        names = writer.job, writer.batch, writer.run
        hashes = [0 if name is None else _hash(name.encode()) for name in names]
        numbers = writer.stage, writer.task, writer.stage_attempt, writer.attempt, writer.serial
        words = np.array([*hashes, *(0 if number is None else number + 1 for number in numbers)], np.uint32)
    except (ValueError, TypeError, AttributeError, OverflowError):
        # From a later version: a field that only informs must not prevent reading the ledger.
        return _NOBODY, False
    words.flags.writeable = False
    return words, writer.speculation


def words_of(data: bytes) -> U32:
    """Returns a writer's bytes as a read-only array of hash words, uint32 (`WORDS`,). All 0 if the bytes are empty or
    not a writer.
    """
    return _said(data)[0] if data else _NOBODY


class RunOrder:
    """The order in which each job's runs (executions) first wrote, for a limited number of jobs and runs per job."""

    def __init__(self) -> None:
        self._runs: dict[int, list[int]] = {}

    def note(self, data: bytes) -> None:
        """Records a write by a writer, given as bytes. Ignores empty bytes."""
        words = words_of(data)
        job, run = int(words[WriterField.JOB]), int(words[WriterField.RUN])
        if not run:
            return
        runs = self._runs.pop(job, [])
        if run not in runs:
            runs = [*runs, run][-_RUNS_MOST:]
        self._runs[job] = runs
        if len(self._runs) > _JOBS_MOST:
            self._runs.pop(next(iter(self._runs)))

    def after(self, data: bytes) -> U32:
        """Returns the runs of a writer's job that began to write after the writer's own run, as hashes, uint32 (n,)."""
        words = words_of(data)
        runs, run = self._runs.get(int(words[WriterField.JOB]), []), int(words[WriterField.RUN])
        return np.array(runs[runs.index(run) + 1 :] if run in runs else [], np.uint32)

    def snapshot(self) -> dict[int, list[int]]:
        return {job: list(runs) for job, runs in self._runs.items()}

    def restore(self, runs: dict[int, list[int]]) -> None:
        self._runs = {job: list(of_job) for job, of_job in runs.items()}


def causes_of(firsts: U32, data: bytes, runs: RunOrder) -> U8:
    """Returns the causes of duplicates whose first writers are `firsts`, uint32 (k, `WORDS`), as uint8 (k,), `Cause`.

    data: the present writer's bytes. UNKNOWN if either writer is unnamed.
    """
    causes = np.full(len(firsts), Cause.UNKNOWN, np.uint8)
    if not data:
        return causes
    mine, speculates = _said(data)
    newer_runs = runs.after(data)
    is_open = firsts[:, WriterField.JOB] != 0
    # By field: a row of `CAUSES` concerns one field, and the rows of one field are adjacent.
    for field in dict.fromkeys(row.field for row in CAUSES):
        if not is_open.any():
            break
        relation = _relation(field, firsts[:, field], int(mine[field]), newer_runs)
        if field is WriterField.STAGE_ATTEMPT:
            serial, attempt = (_relation(of, firsts[:, of], int(mine[of]), newer_runs) for of in _TELLING)
            for pair, told in STAGE_ATTEMPT.items():
                relation[(relation == Relation.NEITHER) & (serial == pair[0]) & (attempt == pair[1])] = told
        for row in CAUSES:
            if row.field is field and row.speculates in (None, speculates):
                fits = is_open & (relation == row.relation)
                causes[fits] = row.cause
                is_open &= ~fits
    return causes


def cause_between(data: bytes, first: bytes, runs: RunOrder) -> Cause:
    """Returns the cause of one duplicate, like `causes_of`, given the current writer's bytes and the first writer's."""
    return Cause(int(causes_of(words_of(first)[np.newaxis], data, runs)[0]))


def is_newer_run(run: bytes | None, data: bytes, runs: RunOrder) -> bool:
    """Returns whether a run, named by its bytes, began to write after the run of `writer`, in the same job."""
    return run is not None and _hash(run) in runs.after(data).tolist()


def task_of(data: bytes) -> int:
    """Returns the hash of a writer's task; 0 if the writer names none."""
    return int(words_of(data)[WriterField.TASK])


def _hash(name: bytes) -> int:
    """Returns the 32-bit hash of a name, never 0."""
    return zlib.crc32(name) or 1


def _relation(field: WriterField, theirs: U32, mine: int, newer_runs: U32) -> U8:
    """Returns the `Relation` of one field of the current writer to that field of each first writer, uint8 (k,)."""
    if not mine:
        return np.where(theirs == 0, Relation.NEITHER, Relation.ONE).astype(np.uint8)
    if field is WriterField.RUN:
        differs = np.where(np.isin(theirs, newer_runs), Relation.OLDER, Relation.NEWER)
    elif field in ORDERED:
        differs = np.where(theirs > mine, Relation.OLDER, Relation.NEWER)
    else:
        differs = np.full(len(theirs), Relation.OTHER)
    return np.where(theirs == 0, Relation.ONE, np.where(theirs == mine, Relation.SAME, differs)).astype(np.uint8)
