"""Says what may work between two appends of a group commit, on the same turn of the loop."""

from typing import Protocol


class BetweenAppends(Protocol):
    """Does work between two appends, a turn at a time. No append is under way when a turn begins."""

    def due_ms(self) -> int | None:
        """Tells in how many milliseconds the next turn is due; 0 or less: now; None: not before `GroupCommit.wake`."""

    async def turn(self) -> None:
        """Does a few milliseconds of work; may call `append_all` or `append_next`. Must not raise."""

    async def stop(self) -> None:
        """Ends the work once no append will follow; returns when nothing of the work is under way any more."""


class NoWork:
    """Does nothing: `BetweenAppends` of a group commit that nothing else works beside."""

    def due_ms(self) -> int | None:
        """Tells that nothing is ever due."""
        return None

    async def turn(self) -> None:
        """Returns at once: there is nothing to do."""
        return

    async def stop(self) -> None:
        """Has nothing to end."""
        return
