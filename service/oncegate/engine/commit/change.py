"""Holds what one decision hands to the group commit."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from oncegate.ports import OutputChange, SendRanges, WriteRange


@dataclass(slots=True)
class Change:
    """Holds what one decision wrote: its entries, its outputs, and how the index takes it back or settles it.

    submitter: the task that waits for it; None: several do, or nobody.
    """

    entries: Sequence[bytes]
    outputs: Sequence[OutputChange]
    undo: Callable[[], None]
    settle: Callable[[], None]
    submitter: "asyncio.Task[object] | None" = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries, of the data of new outputs, and of what waited and is sent."""
        outputs = sum(map(_bytes_of, self.outputs)) if self.outputs else 0
        return sum(map(len, self.entries)) + outputs


def _bytes_of(change: OutputChange) -> int:
    match change:
        case WriteRange():
            return len(change.data)
        case SendRanges():
            return change.waiting_bytes
        case _:
            return 0
