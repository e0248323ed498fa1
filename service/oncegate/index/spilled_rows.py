"""Records which rows waited on their clients' disks while the gateway was down (`on_down` is spill).

A line covers the rows that one caller wrote to one topic within an hour, so a folder of 100,000 entries is a few lines.
"""

from collections.abc import Iterator
from typing import NamedTuple

from oncegate.core.entries.kinds import Entry, Produced
from oncegate.index.part import Undo

# Maximum duration of one line; later rows begin another one.
LINE_MS = 3_600_000
# Six weeks of one per hour; some 200 bytes each. A limit of their own, so that they displace no operator's action.
LINES_MAX = 1_000


class SpilledLine(NamedTuple):
    """Spilled rows of one caller and topic.

    position, wall_ms: of the newest entry that wrote some.
    begun_ms: when the oldest entry was made.
    from_ms, until_ms: when the first and the last row were spilled, by the client's clock.
    who: empty if no credential was required.
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
    """The newest lines, and the number of all spilled rows. A pure function of the ledger's entries."""

    def __init__(self) -> None:
        self.rows = 0
        # Sorted by position: a line that grows moves to the end.
        self._lines: list[SpilledLine] = []

    def apply(self, position: int, entry: Entry, _now_ms: int = 0) -> Undo | None:
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
        """Yields the lines in descending order of position."""
        return reversed(self._lines)

    def snapshot(self) -> SpilledSnapshot:
        return self.rows, list(self._lines)

    def restore(self, saved: SpilledSnapshot) -> None:
        self.rows, lines = saved
        self._lines = list(lines)

    def _place(self, entry: Produced) -> int | None:
        """Returns the index of the line that these rows belong to; None if they begin a new one."""
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
