"""Defines the result of an audit, which consists of counts."""

from dataclasses import asdict, dataclass
from typing import Any

from oncegate.core.causes import Cause

HOUR_MS = 3_600_000
# Upper bounds of a copy's age, counted from the first row of its id.
AGES_MS = {
    "a second": 1_000,
    "a minute": 60_000,
    "an hour": HOUR_MS,
    "a day": 24 * HOUR_MS,
    "7 days": 168 * HOUR_MS,
    "30 days": 720 * HOUR_MS,
    "longer": None,
}
# The values of the dashboards; None: ids are kept for ever.
HORIZONS_MS = {"1h": HOUR_MS, "6h": 6 * HOUR_MS, "1d": 24 * HOUR_MS, "7d": 168 * HOUR_MS, "30d": 720 * HOUR_MS}

# By whether the copy and the first row have the same attempt, and the same batch; None: unknown.
CAUSES: dict[tuple[bool | None, bool | None], Cause] = {
    (True, True): Cause.UPSTREAM,
    (True, False): Cause.UPSTREAM,
    (True, None): Cause.UPSTREAM,
    (False, True): Cause.TASK_RETRY,
    (False, False): Cause.UNKNOWN,
    (False, None): Cause.UNKNOWN,
    (None, True): Cause.UNKNOWN,
    (None, False): Cause.UNKNOWN,
    (None, None): Cause.UNKNOWN,
}


@dataclass
class AuditCounts:
    """The counts over all audited rows.

    rows: all rows read.
    without_id: rows with a null or empty id.
    ids: different ids.
    repeated_ids: those of the ids that occur in two rows or more.
    most_copies: the most rows of one id.
    ages: duplicates by age relative to the first row of their id, of AGES_MS; empty: times are unknown.
    causes: duplicates by cause; empty: writers are unknown.
    caught: duplicates that a retention of HORIZONS_MS would have caught at least: written that soon after the first
    row.
    """

    rows: int = 0
    without_id: int = 0
    ids: int = 0
    repeated_ids: int = 0
    most_copies: int = 0
    ages: dict[str, int] | None = None
    causes: dict[str, int] | None = None
    caught: dict[str, int] | None = None

    @property
    def duplicates(self) -> int:
        """Returns the number of duplicate rows: all but the first of each id."""
        return self.rows - self.without_id - self.ids

    @property
    def members(self) -> dict[str, Any]:
        """Returns all counts as plain values."""
        return {**asdict(self), "duplicates": self.duplicates}
