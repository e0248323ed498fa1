"""Records operators' actions, with author and reason, in the same append as their changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from oncegate.core.entries.kinds import Audited, Entry
from oncegate.engine.commit.journal import Journal
from oncegate.engine.deadline import Deadline
from oncegate.engine.names import check_name
from oncegate.engine.producer_requests import Note


@dataclass(frozen=True, slots=True)
class Done:
    """The effect of an operator's action: its subject (empty: the whole namespace), its extent, and who did it and
    why."""

    action: str
    subject: str
    count: int
    note: Note


class Trail:
    """The audit trail of one shard."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def check(self, note: Note, deadline: Deadline) -> None:
        """Raises BadRequest or TooLarge for an invalid note, and DeadlinePassed if the deadline has passed."""
        check_name("who", note.who, self._journal.limits)
        check_name("why", note.why, self._journal.limits)
        deadline.check()

    def submit(self, done: Done, entries: Sequence[Entry]) -> int:
        """Submits the entries of an action, followed by its note, as one append; returns the last position."""
        told = Audited(done.action, done.subject, done.count, done.note.who, done.note.why, self._journal.wall_ms())
        return self._journal.record([*entries, told])

    async def durable(self, position: int, done: Done) -> None:
        """Waits until the action is durable, and logs it. Raises LedgerFull: nothing was written; LedgerDown: effect
        unknown."""
        journal = self._journal
        await journal.group_commit.durable(position)
        said = {"action": done.action, "subject": done.subject, "count": done.count}
        journal.observer.event("audited", namespace=journal.namespace, **said, who=done.note.who, why=done.note.why)
