"""Clock and sleep of the blocking client, injected so that tests control time."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic clock in milliseconds."""

    def monotonic_ms(self) -> int:
        """Returns milliseconds since a fixed time; never decreases."""

    def sleep_ms(self, duration_ms: int) -> None: ...

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        """Waits for an event for at most `duration_ms`; returns True if it is set."""


class SystemClock:
    """`Clock` over the operating system."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        return event.wait(duration_ms / 1000)
