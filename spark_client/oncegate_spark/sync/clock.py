"""The machine's clock and sleep, as an argument."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time in milliseconds; never goes back."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed time; never goes back."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait so long; the thread does nothing else."""

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        """Wait for an event, at most so long; True when it is set."""


class SystemClock:
    """`Clock` over the operating system."""

    def monotonic_ms(self) -> int:
        """Milliseconds since the machine's start."""
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait so long; the thread does nothing else."""
        time.sleep(duration_ms / 1000)

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        """Wait for an event, at most so long; True when it is set."""
        return event.wait(duration_ms / 1000)
