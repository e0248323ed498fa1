"""Queues changes until an append takes them, and finds the one of a group that the ledger does not take.

A group is all that waits, as much of it as one append may hold. Where the ledger refuses a part of one, its changes
keep their places in the index, stand first in the queue again and are appended in smaller groups: up to the first that
the ledger names, else the first half. One that is refused alone is the one; what came before it is durable by then.
"""

from collections.abc import Sequence
from itertools import accumulate

from oncegate.engine.commit.change import Change
from oncegate.ports import AppendRefused

# One append holds at most this much: a frame stays far below its 32-bit length, a group below a second of disk.
GROUP_BYTES_MAX = 64 << 20


class ChangeQueue:
    """Holds the changes that wait for an append, in the order in which the index applied them; its length counts them.

    Whoever takes a group says how its append ended: by `taken`, `refused`, or `take_all` to undo what is left.
    """

    def __init__(self) -> None:
        self._changes: list[Change] = []
        # So many of the first hold one that was refused and is not known yet; so many of them are appended next.
        self._suspects = 0
        self._next = 0

    def __len__(self) -> int:
        return len(self._changes)

    def put(self, change: Change) -> None:
        """Queues one more change."""
        self._changes.append(change)

    @property
    def fits_one_group(self) -> bool:
        """Tells whether one append may hold all that waits for one."""
        return sum(change.size_bytes for change in self._changes) <= GROUP_BYTES_MAX and not self._suspects

    def take_all(self) -> list[Change]:
        """Empties the queue, and forgets that a change is sought; returns what waited."""
        self._suspects = self._next = 0
        return self._take(len(self._changes))

    def take_group(self) -> list[Change]:
        """Takes the next group out, at least one change of those that wait."""
        most = min(len(self._changes), self._next) if self._suspects else len(self._changes)
        size_bytes = 0
        for count, change in enumerate(self._changes[:most]):
            size_bytes += change.size_bytes
            if count and size_bytes > GROUP_BYTES_MAX:
                return self._take(count)
        return self._take(most)

    def _take(self, count: int) -> list[Change]:
        group, self._changes = self._changes[:count], self._changes[count:]
        return group

    def refused(self, group: Sequence[Change], error: AppendRefused) -> None:
        """Takes back a group of several that was refused: one of them is sought from now on."""
        self._changes = [*group, *self._changes]
        self._suspects = len(group)
        ends = accumulate(len(change.outputs) for change in group)
        named = [at for at, end in enumerate(ends) if error.first_output is not None and error.first_output < end]
        self._next = max(1, named[0] if named else len(group) // 2)

    def taken(self, changes: int) -> None:
        """Notes that the ledger took so many of the first: the one that is sought comes behind them."""
        self._suspects = max(0, self._suspects - changes)
        self._next = max(1, self._suspects // 2)
