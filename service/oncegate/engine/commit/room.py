"""Watches whether the ledger has room: it says what is missing, and when it is worth trying again."""

from collections.abc import Callable

from oncegate.core.errors import LedgerFull
from oncegate.engine.limits import MIB
from oncegate.ports import Clock

# How long a full ledger is left alone before one probe is appended.
PROBE_MS = 1_000
_NOTHING_WRITTEN = "; nothing was written"


class Room:
    """Knows why the ledger is full, from a refused append until a probe was written.

    free_bytes: returns the free bytes of the disk, less what is kept for what ends something; and all it has.
    """

    def __init__(self, clock: Clock, free_bytes: Callable[[], tuple[int, int]]) -> None:
        self._clock = clock
        self._free_bytes = free_bytes
        self._full: LedgerFull | None = None
        # Whether the ledger has no room but for what ends something.
        self.full = False
        self._missing_bytes = 0
        self._probe_ms = 0
        # Called when the ledger has no room any more, and when it has room again.
        self.when_full: Callable[[LedgerFull | None], None] = _nobody

    @property
    def shortage(self) -> str:
        """Says why the ledger is full, and how much room must be made, where that is known; empty while it is not."""
        if self._full is None:
            return ""
        why = self._full.detail.removesuffix(_NOTHING_WRITTEN)
        if self._missing_bytes <= 0:
            return why
        room = f"{-(-self._missing_bytes // MIB)} MiB more must be free"
        return f"{why}; {room} before anything but completes and releases is written, then it goes on by itself"

    @property
    def refusal(self) -> LedgerFull:
        """Returns what whoever wants to write is told while it is full."""
        return LedgerFull(self.shortage + _NOTHING_WRITTEN)

    def begin_full(self, error: LedgerFull) -> None:
        """Takes the ledger for full, until `end_full`."""
        was_full, self._full, self.full = self.full, error, True
        self.leave_alone()
        self.measure()
        if not was_full:
            self.when_full(self.refusal)

    def end_full(self) -> None:
        """Notes that a probe was written: there is room for everything again."""
        self._full, self.full = None, False
        self.when_full(None)

    def due_ms(self) -> int | None:
        """Tells in how many milliseconds a probe is due; 0 or less: now; None: there is room."""
        return None if self._full is None else self._probe_ms - self._clock.monotonic_ms()

    def leave_alone(self) -> None:
        """Lets the next probe be due in `PROBE_MS`."""
        self._probe_ms = self._clock.monotonic_ms() + PROBE_MS

    def measure(self) -> bool:
        """Asks the disk whether it has room besides what is kept, and notes how much it lacks."""
        free_bytes, _ = self._free_bytes()
        self._missing_bytes = 1 - free_bytes
        return free_bytes > 0


def _nobody(_error: LedgerFull | None) -> None:
    return None
