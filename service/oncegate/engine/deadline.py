"""Keeps one budget of time for a request, made where it arrives and passed down."""

from oncegate.core.errors import DeadlinePassed
from oncegate.ports import Clock


class Deadline:
    """Tells whether a caller still waits, in monotonic time; without `timeout_ms` it never passes.

    It is checked before a decision and never after one: what was decided is answered.
    """

    def __init__(self, clock: Clock, timeout_ms: int | None = None) -> None:
        self._clock = clock
        self._end_ms = None if timeout_ms is None else clock.monotonic_ms() + timeout_ms

    @property
    def left_ms(self) -> int | None:
        """Milliseconds left, negative once it has passed; None: it never passes."""
        return None if self._end_ms is None else self._end_ms - self._clock.monotonic_ms()

    def check(self) -> None:
        """Raises DeadlinePassed when the time is up; nothing was written."""
        left_ms = self.left_ms
        if left_ms is not None and left_ms <= 0:
            raise DeadlinePassed(f"the deadline passed {-left_ms} ms before the decision; nothing was written")
