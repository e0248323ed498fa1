"""Compares the writers of duplicates with those of their firsts, by the table of `core.causes`, over arrays.

A row keeps its claim's writer as eight words of 32 bits, 0 where it names nothing: hashes of names, numbers plus 1. Two
names of one hash, one pair in 2^32, are taken for the same, and cost a duplicate its cause.
"""

import zlib
from functools import lru_cache

import numpy as np

from oncegate.arraytypes import U8, U32
from oncegate.core.causes import CAUSES, ORDERED, STAGE_ATTEMPT, Cause, Relation, WriterField
from oncegate.core.writers import decode

# Words of a writer: one for each `Field`, in that order.
WORDS = len(WriterField)
# Jobs whose runs are kept in order, and runs of each: a zombie is a run or two behind.
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
        # A later version's: what only informs must not keep a ledger from being read.
        return _NOBODY, False
    words.flags.writeable = False
    return words, writer.speculation


def words_of(data: bytes) -> U32:
    """Returns a writer's bytes as words, uint32 (`WORDS`,): read-only. All 0: the bytes are empty, or no writer."""
    return _said(data)[0] if data else _NOBODY


class RunOrder:
    """Remembers in which order the runs of each job first wrote something: of the last jobs, and of each the last
    runs."""

    def __init__(self) -> None:
        self._runs: dict[int, list[int]] = {}

    def note(self, data: bytes) -> None:
        """Notes that this writer, in bytes, wrote; nothing of empty ones."""
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
        """Returns the runs of this writer's job that began to write after its own run did: hashes, uint32 (n,)."""
        words = words_of(data)
        runs, run = self._runs.get(int(words[WriterField.JOB]), []), int(words[WriterField.RUN])
        return np.array(runs[runs.index(run) + 1 :] if run in runs else [], np.uint32)

    def snapshot(self) -> dict[int, list[int]]:
        """Returns what is known, as `restore` takes it: a copy."""
        return {job: list(runs) for job, runs in self._runs.items()}

    def restore(self, runs: dict[int, list[int]]) -> None:
        """Takes over a snapshot, in place of what was known."""
        self._runs = {job: list(of_job) for job, of_job in runs.items()}


def causes_of(firsts: U32, data: bytes, runs: RunOrder) -> U8:
    """Returns why ids came again whose firsts these writers wrote, uint32 (k, `WORDS`); uint8 (k,), `Cause`.

    data: the present writer's bytes. UNKNOWN where either names nobody.
    """
    causes = np.full(len(firsts), Cause.UNKNOWN, np.uint8)
    if not data:
        return causes
    mine, speculates = _said(data)
    newer_runs = runs.after(data)
    is_open = firsts[:, WriterField.JOB] != 0
    # By field: a row of `CAUSES` is about one, and the rows of one field come together.
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
    """Returns why one writer, in bytes, brought again what another one wrote first; as `causes_of`."""
    return Cause(int(causes_of(words_of(first)[np.newaxis], data, runs)[0]))


def is_newer_run(run: bytes | None, data: bytes, runs: RunOrder) -> bool:
    """Says whether this run, by its name's bytes, began to write after that of a writer of the same job."""
    return run is not None and _hash(run) in runs.after(data).tolist()


def task_of(data: bytes) -> int:
    """Returns the word of a writer's task; 0: it does not name one."""
    return int(words_of(data)[WriterField.TASK])


def _hash(name: bytes) -> int:
    """Returns a name as a word, never 0."""
    return zlib.crc32(name) or 1


def _relation(field: WriterField, theirs: U32, mine: int, newer_runs: U32) -> U8:
    """Returns how a field of the present writer is to that of each first, uint8 (k,), `Relation`."""
    if not mine:
        return np.where(theirs == 0, Relation.NEITHER, Relation.ONE).astype(np.uint8)
    if field is WriterField.RUN:
        differs = np.where(np.isin(theirs, newer_runs), Relation.OLDER, Relation.NEWER)
    elif field in ORDERED:
        differs = np.where(theirs > mine, Relation.OLDER, Relation.NEWER)
    else:
        differs = np.full(len(theirs), Relation.OTHER)
    return np.where(theirs == 0, Relation.ONE, np.where(theirs == mine, Relation.SAME, differs)).astype(np.uint8)
