"""Behaviour of a client while its gateway is down, and the warnings that it logs while it retries."""

import logging

from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.effort import Reply, WireFailure

# Interval of the warnings: short enough for a person who watches, long enough for the log of a task that waits for
# minutes.
SAY_EACH_MS = 30_000

BLOCK, FAIL, SPILL = ON_DOWN = "block", "fail", "spill"

log = logging.getLogger("oncegate_spark")


def is_patient(on_down: str, has_spill: bool) -> bool:
    """Returns whether calls are retried for their full timeout. Raises BadOption for an invalid `on_down`, or spill
    without folder.
    """
    if on_down not in ON_DOWN:
        raise BadOption(f"on_down is {on_down!r}; it is one of {', '.join(ON_DOWN)}; nothing was sent")
    if (on_down == SPILL) != has_spill:
        line = 'on_down="spill", spill=Spill("/var/spool/oncegate")'
        raise BadOption(f"on_down is {on_down!r}; to spill rows into a folder write {line}; nothing was sent")
    return on_down == BLOCK


def check_without_rows(on_down: str) -> None:
    """Raises BadOption unless `on_down` is block or fail: these calls have no rows to spill."""
    if on_down not in (BLOCK, FAIL):
        raise BadOption(
            f"on_down is {on_down!r}; here it must be {BLOCK} or {FAIL}: only rows that a Gateway's attempt produces "
            "can "
            "be spilled; nothing was sent"
        )


class Outage:
    """Warns at the first refused connection and every 30 s after, until any reply arrives."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._began_ms: int | None = None
        self._said_ms = 0
        self._unchecked, self._unchecked_said_ms = 0, -SAY_EACH_MS

    def note(self, end: Reply | WireFailure, now_ms: int, left_ms: int) -> None:
        """Records the end of a try; `left_ms`: time left for the call's retries."""
        if isinstance(end, Reply):
            self._began_ms = None
        elif not end.sent and end.fix is None:
            self._refused(end, now_ms, left_ms)

    def note_unchecked(self, count: int, now_ms: int) -> None:
        """Counts ids granted unchecked; warns at the first, then at most every 30 s with the total since."""
        self._unchecked += count
        if self._unchecked and now_ms - self._unchecked_said_ms >= SAY_EACH_MS:
            warn_unchecked(self._unchecked, self._address)
            self._unchecked, self._unchecked_said_ms = 0, now_ms

    def _refused(self, failure: WireFailure, now_ms: int, left_ms: int) -> None:
        if self._began_ms is None:
            self._began_ms = now_ms
        elif now_ms - self._said_ms < SAY_EACH_MS:
            return
        self._said_ms = now_ms
        log.warning(
            "no connection to %s for %d s (%s); this call retries for %d s more",
            self._address,
            (now_ms - self._began_ms) // 1_000,
            failure,
            left_ms // 1_000,
        )


def warn_unchecked(count: int, what: str) -> None:
    """Logs the number of ids granted without a lookup; silent for 0."""
    if count:
        log.warning(
            "%s: %d ids granted unchecked: the ledger is down and the namespace lets claims pass (on_ledger_down); "
            "they may be written already, or granted to others too",
            what,
            count,
        )
