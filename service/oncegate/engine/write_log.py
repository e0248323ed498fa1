"""Logs writes: one line for each batch, and one warning for each topic that is written without ids."""

from oncegate.engine.commit.journal import Journal
from oncegate.engine.requests import CommitRequest, CommitResult


def log_batch(journal: Journal, request: CommitRequest, result: CommitResult) -> None:
    """Logs one line for a batch whose commit was answered COMMITTED or DUPLICATE."""
    name = request.name
    journal.observer.event(
        "batch",
        namespace=journal.namespace,
        app=name.app,
        version=name.version,
        topic=name.topic,
        outcome=result.outcome,
        rows=result.rows,
        suppressed_rows=result.suppressed_rows,
        takeover_rows=result.takeover_rows,
    )


class PlainWriteWarnings:
    """Warns once per topic and shard lifetime that the topic's rows have no ids, so that a retry would write them
    again."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._warned: set[str] = set()

    def note(self, topic: str) -> None:
        """Records a write without ids to `topic`, and warns if it is the first."""
        if topic not in self._warned:
            self._warned.add(topic)
            journal = self._journal
            journal.observer.event("plain_write", namespace=journal.namespace, topic=topic, promise="at least once")
