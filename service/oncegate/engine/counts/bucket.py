"""Bounds a rate by a token bucket that holds one second, and may go into debt.

What comes is let in while anything is left, however large it is, and paid for by those who come next. So the largest
request passes under the smallest rate, and none is split.
"""

from oncegate.ports import Clock


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
