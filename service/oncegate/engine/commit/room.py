"""Tracks whether the ledger has free disk space, how much is missing, and when the next probe is due."""

from collections.abc import Callable

from oncegate.core.errors import LedgerFull
from oncegate.engine.limits import MIB
from oncegate.ports import Clock

# Pause between the probes of a full ledger.
PROBE_MS = 1_000
_NOTHING_WRITTEN = "; nothing was written"


class Room:
    """The space state of a ledger: full from the moment an append is refused until a probe is written.

    free_bytes: returns (free bytes beyond the reserve for completes and releases, all free bytes).
    """

    def __init__(self, clock: Clock, free_bytes: Callable[[], tuple[int, int]]) -> None:
        self._clock = clock
        self._free_bytes = free_bytes
        self._full: LedgerFull | None = None
        # True while only completes and releases may be written.
        self.full = False
        self._missing_bytes = 0
        self._probe_ms = 0
        # Called with the refusal when the ledger becomes full, and with None when it has room again.
        self.when_full: Callable[[LedgerFull | None], None] = _nobody

    @property
    def shortage(self) -> str:
        """The reason why the ledger is full and, if known, how much space must be freed; empty while it is not full."""
        if self._full is None:
            return ""
        why = self._full.detail.removesuffix(_NOTHING_WRITTEN)
        if self._missing_bytes <= 0:
            return why
        room = f"{-(-self._missing_bytes // MIB)} MiB more must be free"
        return f"{why}; {room} before anything but completes and releases is written, then it goes on by itself"

    @property
    def refusal(self) -> LedgerFull:
        """The error for callers that want to write while the ledger is full."""
        return LedgerFull(self.shortage + _NOTHING_WRITTEN)

    def begin_full(self, error: LedgerFull) -> None:
        was_full, self._full, self.full = self.full, error, True
        self.leave_alone()
        self.measure()
        if not was_full:
            self.when_full(self.refusal)

    def end_full(self) -> None:
        """Ends the full state after a probe was written."""
        self._full, self.full = None, False
        self.when_full(None)

    def due_ms(self) -> int | None:
        """Returns the milliseconds until a probe is due; 0 or less means now, None means that the ledger is not
        full."""
        return None if self._full is None else self._probe_ms - self._clock.monotonic_ms()

    def leave_alone(self) -> None:
        self._probe_ms = self._clock.monotonic_ms() + PROBE_MS

    def measure(self) -> bool:
        """Measures the free space; returns whether any is left beyond the reserve."""
        free_bytes, _ = self._free_bytes()
        self._missing_bytes = 1 - free_bytes
        return free_bytes > 0


def _nobody(_error: LedgerFull | None) -> None:
    return None
