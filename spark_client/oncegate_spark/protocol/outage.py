"""What a client does while a gateway is down, and the warnings of one that waits."""

import logging

from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.effort import Reply, WireFailure

# Often enough for a person who looks, seldom enough for the log of a task that waits for minutes.
SAY_EACH_MS = 30_000

BLOCK, FAIL, SPILL = ON_DOWN = "block", "fail", "spill"

log = logging.getLogger("oncegate_spark")


def is_patient(on_down: str, has_spill: bool) -> bool:
    """Whether calls are tried for their whole time. Raises BadOption where `on_down` is none, or misses its folder."""
    if on_down not in ON_DOWN:
        raise BadOption(f"on_down is {on_down!r}; it is one of {', '.join(ON_DOWN)}; nothing was sent")
    if (on_down == SPILL) != has_spill:
        line = 'on_down="spill", spill=Spill("/var/spool/oncegate")'
        raise BadOption(f"on_down is {on_down!r}; rows are laid down in a folder by {line}; nothing was sent")
    return on_down == BLOCK


def check_without_rows(on_down: str) -> None:
    """Raises BadOption where `on_down` is neither block nor fail: what is asked here lays no rows down."""
    if on_down not in (BLOCK, FAIL):
        raise BadOption(
            f"on_down is {on_down!r}; here it is {BLOCK} or {FAIL}: only rows that a Gateway's attempt produces are "
            "laid down; nothing was sent"
        )


class Outage:
    """Warns at the first connection that is refused, then each half minute until any answer comes."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._began_ms: int | None = None
        self._said_ms = 0
        self._unchecked, self._unchecked_said_ms = 0, -SAY_EACH_MS

    def note(self, end: Reply | WireFailure, now_ms: int, left_ms: int) -> None:
        """Take in how a try has ended; `left_ms`: for how long its call goes on trying."""
        if isinstance(end, Reply):
            self._began_ms = None
        elif not end.sent and end.fix is None:
            self._refused(end, now_ms, left_ms)

    def note_unchecked(self, count: int, now_ms: int) -> None:
        """Take in how many ids a claim was granted unchecked; warns at the first, then each half minute of all."""
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
            "no connection to %s for %d s (%s); this call tries for %d s more",
            self._address,
            (now_ms - self._began_ms) // 1_000,
            failure,
            left_ms // 1_000,
        )


def warn_unchecked(count: int, what: str) -> None:
    """Warn of ids that are granted though the gateway could not look them up; silent where there are none."""
    if count:
        log.warning(
            "%s: ids granted unchecked: %d, for the ledger is down and the namespace lets them pass (on_ledger_down): "
            "they may be written, or granted to others too",
            what,
            count,
        )
