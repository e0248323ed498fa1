"""Defines time and events as the engine needs them."""

from typing import Protocol


class Clock(Protocol):
    """Tells the time. Leases and deadlines use the monotonic one; the wall clock only labels."""

    def monotonic_ms(self) -> int:
        """Returns milliseconds since an arbitrary start; never goes back."""

    def wall_ms(self) -> int:
        """Returns milliseconds since 1970-01-01 UTC; may be stepped."""

    async def sleep_ms(self, duration_ms: int) -> None:
        """Returns after `duration_ms` of monotonic time."""


class Observer(Protocol):
    """Takes events: log lines now, metrics and traces later."""

    def event(self, name: str, /, **fields: object) -> None:
        """Notes that something happened; fields are plain values. Must not raise."""
