"""Builds the errors for refused commits: the batch, the rows already committed under its name, and the remedies."""

from datetime import UTC, datetime

from oncegate.core.batches import CommitOutcome, DigestMatch
from oncegate.core.errors import BatchConflict, BatchForgotten, MissingStage, OncegateError, SecondWrite
from oncegate.engine.requests import CommitRequest
from oncegate.index.committed_names import CommittedName, short_digest

_NEW_APP = "a new `app` in the batch's name (everything from here is written)"
_FIRST_WINS = (
    "on_replay_mismatch=first_wins (the committed rows stay; after a restored or deleted checkpoint it drops "
    "every batch up to the old number)"
)


def refusal(outcome: CommitOutcome, reason: str, request: CommitRequest, record: CommittedName | None) -> OncegateError:
    """Returns the error for a commit that published nothing."""
    batch = f"batch {request.name.version} of {request.name.app} to topic {request.name.topic}"
    if outcome is CommitOutcome.MISSING_STAGE:
        return MissingStage(f"a stage of {batch} is not there (expired, aborted or replaced): write the batch again")
    if record is None:
        return BatchConflict(
            f"{batch} follows a batch that was committed with other input: {reason}. The way on: {_NEW_APP}."
        )
    when = datetime.fromtimestamp(record.wall_ms / 1000, UTC).isoformat(timespec="seconds")
    where = [{"partition": span.partition, "first_offset": span.first_offset} for span in record.spans]
    published = {"committed_rows": record.rows, "committed_at": when, "offsets": where}
    if outcome is CommitOutcome.SECOND_WRITE:
        return SecondWrite(
            f"this run has already written {batch}: two writes of one run to one topic need two names. The first write "
            "keeps its name; give this one and every later one a write_id (any text, the same at every run)",
            **published,
        )
    if outcome is CommitOutcome.BATCH_FORGOTTEN:
        return BatchForgotten(
            f"{batch} was committed at {when}, too long ago to compare its rows: {reason}", **published
        )
    return BatchConflict(
        f"{batch} was committed at {when} with {record.rows} rows{_at(record)}, and this is another "
        f"input or output under its number: {reason}. {_ways_on(request, record)}",
        **published,
    )


def _at(record: CommittedName) -> str:
    offsets = ", ".join(f"offset {span.first_offset} of partition {span.partition}" for span in record.spans)
    return f" at {offsets}" if offsets else ""


def _ways_on(request: CommitRequest, record: CommittedName) -> str:
    """Returns the remedies; `first_wins` is offered only if the input may be the same, because different input is never
    dropped."""
    if DigestMatch.compare(record.digest, short_digest(request.digest)) is DigestMatch.DIFFERENT:
        return f"The way on: {_NEW_APP}."
    return f"Two ways on: {_FIRST_WINS}, or {_NEW_APP}."
