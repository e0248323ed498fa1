"""Finds the change of a group that the ledger does not take, and says who is told what of it.

Changes of a refused append keep their places in the index and are appended again in smaller groups: up to the first
that the ledger names, else the first half. One that is refused alone is the one. What came before it is durable by
then; it is undone with all that came after, newest first, and only its own submitter is told its refusal.
"""

import asyncio
from collections.abc import Sequence
from itertools import accumulate

from oncegate.engine.commit.change import Change
from oncegate.ports import AppendRefused


class RefusedPart:
    """Counts how many of the first changes that wait hold one that was refused, and how many to append next."""

    def __init__(self) -> None:
        self._suspects = 0
        self._next = 0

    @property
    def sought(self) -> bool:
        """Tells whether one of the changes that wait was refused and is not known yet."""
        return self._suspects > 0

    def cut(self, changes: int) -> int:
        """Returns how many of so many changes that wait may be in the next group."""
        return min(changes, self._next) if self._suspects else changes

    def refused(self, group: Sequence[Change], error: AppendRefused) -> None:
        """Notes a group of several that was refused."""
        self._suspects = len(group)
        ends = accumulate(len(change.outputs) for change in group)
        named = [at for at, end in enumerate(ends) if error.first_output is not None and error.first_output < end]
        self._next = max(1, named[0] if named else len(group) // 2)

    def taken(self, changes: int) -> None:
        """Notes that so many of the first were taken: the one that is sought comes behind them."""
        self._suspects = max(0, self._suspects - changes)
        self._next = max(1, self._suspects // 2)

    def found(self) -> None:
        """Notes that nothing of what was refused waits any more."""
        self._suspects = self._next = 0


def submitter() -> "asyncio.Task[object] | None":
    """Returns the task that runs now; None: a callback of the loop, which submits for several."""
    return asyncio.current_task()
