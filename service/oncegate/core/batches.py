"""Decision table for the commit of a named batch: its rows are tried from the top.

Rule 1: everything that decides about a commit is in this file.
Rule 2: this file reads no clock and does no I/O. The facts are arguments.

Theory of operation
===================

A batch is named (app, version, topic, write_id). Names that differ only in the version are a series: the micro-batches
of one query, or the runs of one job. Tasks stage rows under the name; a commit publishes the rows of the tasks that
won, all or none. A name is committed once. Every later commit of it must be one of three things, and a wrong guess
either drops rows or writes them twice:

  a repeat     the same commit again, since the reply was lost, or the same input again after a restart
  a conflict   other input under the same name, e.g. after a checkpoint was restored or deleted
  a misuse     one run writes twice under one name

The facts that tell these apart, from the strongest to the weakest:

  nonce         drawn for each commit and kept over its HTTP retries: an equal nonce is this very commit
  run           a run that has asked for the name before with another nonce writes twice
  input digest  SHA-256 of Spark's offset-log entry for the batch
  reads digest  digest of the files and offsets that the entry denotes; equal even if the entry's own text differs
  rows          row count and fingerprint of the rows, as the gateway computed them

A digest is unknown if either side lacks it. Then equal rows count as a repeat. Different rows are a conflict unless the
namespace's caller declared that the first output wins: a plan that is not deterministic yields other rows from the same
input.

Before the first commit of a name there are two more checks. The digest of batch n-1 shows whether this checkpoint and
the committed batches have the same history. In a series whose versions are numbers, a version below a committed one is
a late repeat, as in Delta Lake.

Invariants: a commit publishes all rows or none. An acknowledged name is never published again (P1). Other input is
never dropped silently (LOSS): it is BATCH_CONFLICT, and a person decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class CommitOutcome(Enum):
    """The outcome of a commit."""

    COMMITTED = "COMMITTED"
    COMMITTED_AGAIN = "COMMITTED_AGAIN"
    DUPLICATE = "DUPLICATE"
    BATCH_CONFLICT = "BATCH_CONFLICT"
    SECOND_WRITE = "SECOND_WRITE"
    MISSING_STAGE = "MISSING_STAGE"
    BATCH_FORGOTTEN = "BATCH_FORGOTTEN"
    LOWER_VERSION = "LOWER_VERSION"


class DigestMatch(Enum):
    """The result of comparing the digests of two inputs; UNKNOWN if a digest is missing."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"

    @classmethod
    def compare(cls, first: bytes | None, second: bytes | None) -> "DigestMatch":
        """Compares two input digests; None means that the digest is unknown."""
        if first is None or second is None:
            return cls.UNKNOWN
        return cls.EQUAL if first == second else cls.DIFFERENT


@dataclass(frozen=True)
class Facts:
    """The facts known when a commit arrives. Most fields matter only before or only after the first commit of the name.

    previous: digest of batch n-1, as committed, against the one that this commit brings.
    same_nonce: the committed nonce is this commit's.
    run_asked: this run (never null) has asked for this name before with another nonce.
    rows_equal: row count and fingerprint equal the recorded ones; None if those were dropped.
    higher_version: a higher number of the series is committed, and the versions are not Spark's batch ids.
    reads: digest of what the batch read, as committed, against the one that this commit brings.
    """

    committed: bool
    stages_there: bool = True
    previous: DigestMatch = DigestMatch.UNKNOWN
    same_nonce: bool = False
    run_asked: bool = False
    digests: DigestMatch = DigestMatch.UNKNOWN
    rows_equal: bool | None = None
    first_wins: bool = False
    higher_version: bool = False
    reads: DigestMatch = DigestMatch.UNKNOWN


@dataclass(frozen=True)
class CommitRow:
    """A row of the commit table: a condition, its outcome and the reason."""

    name: str
    when: Callable[[Facts], bool]
    outcome: CommitOutcome
    reason: str


COMMIT: tuple[CommitRow, ...] = (
    CommitRow(
        "the previous batch was committed with other input",
        lambda f: not f.committed and f.previous is DigestMatch.DIFFERENT,
        CommitOutcome.BATCH_CONFLICT,
        "a zombie wrote the commit log of a restored checkpoint; its rows and these have different histories",
    ),
    CommitRow(
        "new, a higher version is committed",
        lambda f: not f.committed and f.higher_version,
        CommitOutcome.LOWER_VERSION,
        "numbers rise with each run of a job, as in Delta Lake: a lower one is a late repeat and is skipped",
    ),
    CommitRow(
        "new, a stage is missing",
        lambda f: not f.committed and not f.stages_there,
        CommitOutcome.MISSING_STAGE,
        "all or nothing: Spark's next attempt writes the batch again",
    ),
    CommitRow(
        "new, every winner is staged",
        lambda f: not f.committed,
        CommitOutcome.COMMITTED,
        "the first commit of a name publishes its rows",
    ),
    CommitRow("the same commit again", lambda f: f.same_nonce, CommitOutcome.COMMITTED_AGAIN, "the reply was lost"),
    CommitRow(
        "this run has asked for this name before",
        lambda f: f.run_asked,
        CommitOutcome.SECOND_WRITE,
        "two writes of one run to one topic; equal rows would be dropped silently",
    ),
    CommitRow(
        "same input",
        lambda f: f.digests is DigestMatch.EQUAL,
        CommitOutcome.DUPLICATE,
        "a replay of one input: the first output wins, even if the plan is not deterministic",
    ),
    CommitRow(
        "other entry, same files and offsets",
        lambda f: f.reads is DigestMatch.EQUAL,
        CommitOutcome.DUPLICATE,
        "a restored checkpoint reads published input again and recorded the batch at another time",
    ),
    CommitRow(
        "other input",
        lambda f: DigestMatch.DIFFERENT in (f.digests, f.reads),
        CommitOutcome.BATCH_CONFLICT,
        "a restored or deleted checkpoint reused the number; skipping would drop data silently",
    ),
    CommitRow(
        "input unknown, rows dropped",
        lambda f: f.rows_equal is None,
        CommitOutcome.BATCH_FORGOTTEN,
        "nothing is left to compare",
    ),
    CommitRow(
        "input unknown, same rows",
        lambda f: f.rows_equal is True,
        CommitOutcome.DUPLICATE,
        "a replay of a deterministic plan",
    ),
    CommitRow(
        "input unknown, other rows, first wins",
        lambda f: f.first_wins,
        CommitOutcome.DUPLICATE,
        "the user declared that a replay may differ",
    ),
    CommitRow(
        "input unknown, other rows",
        lambda f: True,
        CommitOutcome.BATCH_CONFLICT,
        "the plan is not deterministic, or the input differs: only the user can know",
    ),
)


def decide(facts: Facts) -> CommitRow:
    """Returns the first row of COMMIT that applies."""
    return next(row for row in COMMIT if row.when(facts))
