"""Bounds how much a namespace may bring in a second, so that one tenant leaves room for the others.

A token bucket that holds one second, and may go into debt: what comes is let in while anything is left, however large
it is, and paid for by those who come next. So the largest request passes under the smallest rate, and none is split.

Refusals come before any effect. What settles a claim is counted and never refused: its lease would run out, and then
its ids may be written twice.
"""

from oncegate.core.errors import QuotaExceeded
from oncegate.engine.counters import QUOTA_BYTES, QUOTA_IDS, CounterRow
from oncegate.engine.counts.counts import Counts
from oncegate.engine.limits import KIB, Limits
from oncegate.ports import Clock

# Above what settles a claim, or claims a few ids: those are bounded by their ids.
NEVER_REFUSED_BYTES = 4 * KIB


class Bucket:
    """What is left of a rate; `per_second` 0: there is no bound."""

    __slots__ = ("_clock", "_left", "_per_second", "_since_ms")

    def __init__(self, per_second: int, clock: Clock) -> None:
        self._per_second, self._clock = per_second, clock
        self._left, self._since_ms = float(per_second), clock.monotonic_ms()

    def wait_ms(self) -> int:
        """Returns after how long something is left, 0 where it is now."""
        if not self._per_second:
            return 0
        now_ms = self._clock.monotonic_ms()
        grown = (now_ms - self._since_ms) * self._per_second / 1_000
        self._left, self._since_ms = min(self._left + grown, float(self._per_second)), now_ms
        return 0 if self._left > 0 else int(-self._left * 1_000 / self._per_second) + 1

    def take(self, count: int) -> None:
        """Takes so many, which may be more than are left."""
        self._left -= count


class Rates:
    """The ids and bytes that one namespace may bring in a second, over both doors and all of its callers."""

    def __init__(self, limits: Limits, clock: Clock, counts: Counts) -> None:
        self._limits, self._counts = limits, counts
        self._ids, self._bytes = Bucket(limits.ids_per_second, clock), Bucket(limits.bytes_per_second, clock)

    def ids(self, count: int) -> None:
        """Counts ids, sequences or rows that are to be decided on. Raises QuotaExceeded: nothing was written."""
        if wait_ms := self._ids.wait_ms():
            raise self._refused(QUOTA_IDS, "ids", "ids_per_second", wait_ms)
        self._ids.take(count)

    def size_bytes(self, count: int) -> None:
        """Counts the bytes of a body that was announced. Raises QuotaExceeded: nothing was read or written."""
        if (wait_ms := self._bytes.wait_ms()) and count > NEVER_REFUSED_BYTES:
            raise self._refused(QUOTA_BYTES, "bytes", "bytes_per_second", wait_ms)
        self._bytes.take(count)

    def _refused(self, row: CounterRow, what: str, limit: str, wait_ms: int) -> QuotaExceeded:
        self._counts.add(row)
        most = getattr(self._limits, limit)
        return QuotaExceeded(
            f"this namespace brings more than {most} {what} a second (`{limit}` of /v1/limits); nothing was written",
            retry_after_ms=wait_ms,
        )
