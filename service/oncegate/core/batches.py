"""What a commit of a named batch means: one table, tried from the top.

Rule 1: everything that decides about a commit stands in this file.
Rule 2: this file reads no clock and does no I/O; the facts are arguments.

A name is (app, version, topic, write_id); names that differ in the version alone are a series. The input digest is the
SHA-256 of Spark's offset-log entry; the digest of what is read is of the files and offsets that the entry stands for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class CommitOutcome(Enum):
    """Names what becomes of a commit."""

    COMMITTED = "COMMITTED"
    COMMITTED_AGAIN = "COMMITTED_AGAIN"
    DUPLICATE = "DUPLICATE"
    BATCH_CONFLICT = "BATCH_CONFLICT"
    SECOND_WRITE = "SECOND_WRITE"
    MISSING_STAGE = "MISSING_STAGE"
    BATCH_FORGOTTEN = "BATCH_FORGOTTEN"
    LOWER_VERSION = "LOWER_VERSION"


class DigestMatch(Enum):
    """Says how the digests of two inputs compare; unknown where one is missing."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"

    @classmethod
    def compare(cls, first: bytes | None, second: bytes | None) -> "DigestMatch":
        """Compares two digests of inputs; None is one that nobody knows."""
        if first is None or second is None:
            return cls.UNKNOWN
        return cls.EQUAL if first == second else cls.DIFFERENT


@dataclass(frozen=True)
class Facts:
    """Says what is known when a commit arrives; the later fields mean something only where the first says so.

    previous: digest of batch n-1 as committed against the one brought with this commit.
    run_asked: this run (never null) has asked for this name before with another nonce.
    rows_equal: row count and fingerprint equal the recorded ones; None when those were dropped.
    higher_version: a higher number of the series is committed, and the caller's versions are not Spark's batch ids.
    reads: the digest of what is read, as committed against the one brought with this commit.
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
    """Holds one row of the commit's table: a condition, its outcome and why."""

    name: str
    when: Callable[[Facts], bool]
    outcome: CommitOutcome
    reason: str


COMMIT: tuple[CommitRow, ...] = (
    CommitRow(
        "the batch before was committed with other input",
        lambda f: not f.committed and f.previous is DigestMatch.DIFFERENT,
        CommitOutcome.BATCH_CONFLICT,
        "a zombie wrote the commit log of a restored checkpoint; its rows and these come from different histories",
    ),
    CommitRow(
        "new, a higher version is committed",
        lambda f: not f.committed and f.higher_version,
        CommitOutcome.LOWER_VERSION,
        "numbers rise with each run of a job, as in Delta Lake: a lower one is a late repeat, and is skipped",
    ),
    CommitRow(
        "new, a stage is missing",
        lambda f: not f.committed and not f.stages_there,
        CommitOutcome.MISSING_STAGE,
        "all or nothing: Spark's next try writes the batch again",
    ),
    CommitRow(
        "new, every winner is there",
        lambda f: not f.committed,
        CommitOutcome.COMMITTED,
        "the first commit of a name publishes its rows",
    ),
    CommitRow("this very commit again", lambda f: f.same_nonce, CommitOutcome.COMMITTED_AGAIN, "the reply was lost"),
    CommitRow(
        "this run has asked for this name before",
        lambda f: f.run_asked,
        CommitOutcome.SECOND_WRITE,
        "two writes of one run to one topic; equal rows would be dropped in silence",
    ),
    CommitRow(
        "same input",
        lambda f: f.digests is DigestMatch.EQUAL,
        CommitOutcome.DUPLICATE,
        "a replay of one input: the first output wins, also when the plan is not deterministic",
    ),
    CommitRow(
        "other entry, same files and offsets",
        lambda f: f.reads is DigestMatch.EQUAL,
        CommitOutcome.DUPLICATE,
        "a restored checkpoint reads again what was published, and wrote the number down at another time",
    ),
    CommitRow(
        "other input",
        lambda f: DigestMatch.DIFFERENT in (f.digests, f.reads),
        CommitOutcome.BATCH_CONFLICT,
        "a restored or deleted checkpoint used the number again; skipping would drop data in silence",
    ),
    CommitRow(
        "input unknown, rows dropped",
        lambda f: f.rows_equal is None,
        CommitOutcome.BATCH_FORGOTTEN,
        "nothing is left to compare with",
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
        "the user said that a replay may differ",
    ),
    CommitRow(
        "input unknown, other rows",
        lambda f: True,
        CommitOutcome.BATCH_CONFLICT,
        "a plan that is not deterministic, or other input: only the user can know",
    ),
)


def decide(facts: Facts) -> CommitRow:
    """Returns the first row of COMMIT that applies."""
    return next(row for row in COMMIT if row.when(facts))
