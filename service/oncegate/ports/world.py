"""Defines time and events for the engine."""

from typing import Protocol


class Clock(Protocol):
    """Reads the time. Leases and deadlines use the monotonic clock; the wall clock only labels."""

    def monotonic_ms(self) -> int:
        """Returns the monotonic time in milliseconds since an arbitrary start."""

    def wall_ms(self) -> int:
        """Returns the wall-clock time in milliseconds since 1970-01-01 UTC; the clock may be stepped."""

    async def sleep_ms(self, duration_ms: int) -> None:
        """Sleeps for `duration_ms` of monotonic time."""


class Observer(Protocol):
    """Receives events and logs them."""

    def event(self, name: str, /, **fields: object) -> None:
        """Records an event; fields are plain values. Must not raise."""
