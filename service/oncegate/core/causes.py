"""Why something is brought a second time: the causes that duplicates are counted by, and what each is known from.

Rule 1: a cause changes no answer. It is looked up for what was decided to be a duplicate, and for nothing else.
Rule 2: what is not known is UNKNOWN, never the likeliest.
"""

from enum import IntEnum


class Cause(IntEnum):
    """Names why an id, a sequence or a row came again; as small numbers, for arrays."""

    CLIENT_RETRY = 0
    TASK_RETRY = 1
    BATCH_REPLAY = 2
    ZOMBIE = 3
    OTHER_JOB = 4
    UPSTREAM = 5
    UNKNOWN = 6


# What each is known from.
KNOWN_FROM: dict[Cause, str] = {
    Cause.CLIENT_RETRY: "the attempt that wrote it repeats its call: a reply was lost",
    Cause.TASK_RETRY: (
        "another attempt brings it under the same batch scope, stages it for the same batch, or brings a producer's "
        "sequence of an earlier epoch: a task that is run again, or beside (speculation is not told apart)"
    ),
    Cause.BATCH_REPLAY: "a committed name is committed again: the rows of that commit",
    Cause.ZOMBIE: "sequences that an attempt of a fenced epoch brings, whether they were written or not",
    Cause.OTHER_JOB: "an owner took the id, or one takes what somebody else wrote",
    Cause.UPSTREAM: "one request names the id twice, or one attempt in two of its calls: its source has it twice",
    Cause.UNKNOWN: "another attempt wrote it, and nothing says whose that was",
}
