"""Knows which written rows had waited on their clients' disks while the gateway was down (`on_down` is spill).

A line tells what one caller wrote into one topic within an hour, so that a folder of 100,000 entries is a few lines.
"""

from collections.abc import Iterator
from typing import NamedTuple

from oncegate.core.entries.kinds import Entry, Produced
from oncegate.index.part import Undo

# Of a drain; what comes later is another line.
LINE_MS = 3_600_000
# Six weeks of one an hour; some 200 bytes each. They have room of their own, and push no action of a person out.
LINES_MAX = 1_000


class SpilledLine(NamedTuple):
    """Tells rows of one caller and topic that had waited.

    position, wall_ms: of the newest entry that wrote some. begun_ms: when the oldest was made. from_ms, until_ms: when
    the first and the last of them had been laid down, by the client's clock. who: empty where no credential was asked
    for.
    """

    position: int
    wall_ms: int
    begun_ms: int
    from_ms: int
    until_ms: int
    rows: int
    topic: str
    who: str


SpilledSnapshot = tuple[int, list[SpilledLine]]


class SpilledRows:
    """Holds the newest lines, and the sum of all rows; a pure function of the ledger's entries."""

    def __init__(self) -> None:
        self.rows = 0
        # In the order of their positions: one that grows moves to the end.
        self._lines: list[SpilledLine] = []

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
        """Applies one entry; returns what undoes it, or None where no rows of it had waited."""
        if not isinstance(entry, Produced) or not entry.spilled_ms or not entry.rows:
            return None
        at = self._place(entry)
        before = None if at is None else self._lines.pop(at)
        gone = self._lines.pop(0) if len(self._lines) >= LINES_MAX else None
        self._lines.append(_line(position, entry, before))
        self.rows += entry.rows

        def undo() -> None:
            self.rows -= entry.rows
            self._lines.pop()
            if gone is not None:
                self._lines.insert(0, gone)
            if at is not None and before is not None:
                self._lines.insert(at, before)

        return undo

    def newest_first(self) -> Iterator[SpilledLine]:
        """Iterates over the lines by falling positions."""
        return reversed(self._lines)

    def snapshot(self) -> SpilledSnapshot:
        """Returns all that is known, as a list of its own."""
        return self.rows, list(self._lines)

    def restore(self, saved: SpilledSnapshot) -> None:
        """Takes over what was saved, in place of everything."""
        self.rows, lines = saved
        self._lines = list(lines)

    def _place(self, entry: Produced) -> int | None:
        """Finds the line that these rows belong to; None: they begin one."""
        for at in range(len(self._lines) - 1, -1, -1):
            line = self._lines[at]
            if entry.wall_ms - line.wall_ms >= LINE_MS:
                return None
            if (line.who, line.topic) == (entry.spilled_by, entry.topic):
                return at if entry.wall_ms - line.begun_ms < LINE_MS else None
        return None


def _line(position: int, entry: Produced, before: SpilledLine | None) -> SpilledLine:
    at_ms, rows = entry.spilled_ms, entry.rows
    begun_ms, from_ms, until_ms = entry.wall_ms, at_ms, at_ms
    if before is not None:
        begun_ms, rows = before.begun_ms, before.rows + rows
        from_ms, until_ms = min(before.from_ms, at_ms), max(before.until_ms, at_ms)
    return SpilledLine(position, entry.wall_ms, begun_ms, from_ms, until_ms, rows, entry.topic, entry.spilled_by)
