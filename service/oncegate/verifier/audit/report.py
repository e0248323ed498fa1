"""What an audit has found: counts."""

from dataclasses import asdict, dataclass
from typing import Any

from oncegate.core.causes import Cause

HOUR_MS = 3_600_000
# How old a copy is at most, by the first of its id.
AGES_MS = {
    "a second": 1_000,
    "a minute": 60_000,
    "an hour": HOUR_MS,
    "a day": 24 * HOUR_MS,
    "7 days": 168 * HOUR_MS,
    "30 days": 720 * HOUR_MS,
    "longer": None,
}
# As the dashboards have them; None: ids are kept for ever.
HORIZONS_MS = {"1h": HOUR_MS, "6h": 6 * HOUR_MS, "1d": 24 * HOUR_MS, "7d": 168 * HOUR_MS, "30d": 720 * HOUR_MS}

# By whether the copy has the attempt of the first, and its batch: None where nobody says.
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
    """Counts what lies in the rows.

    rows: all that were read. without_id: those with a null or empty id. ids: different ones. repeated_ids: of these,
    those in two rows or more. most_copies: the most rows of one id.
    ages: duplicates by how long after the first of their id they were written, of AGES_MS; empty: nobody says when.
    causes: duplicates by why they came; empty: nobody says who wrote them.
    caught: duplicates that a horizon of HORIZONS_MS would have caught at least: written so soon behind their first.
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
        """Rows whose id stood in another row: what was to be written once would be without them."""
        return self.rows - self.without_id - self.ids

    @property
    def members(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {**asdict(self), "duplicates": self.duplicates}
