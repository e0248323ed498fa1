"""The machine's clock and sleep, as an argument."""

import asyncio
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time in milliseconds; never goes back."""

    def monotonic_ms(self) -> int: ...

    def sleep_ms(self, duration_ms: int) -> None: ...

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        """Wait for an event, at most so long; True when it is set."""


class SystemClock:
    """`Clock` over the operating system."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        time.sleep(duration_ms / 1000)

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        return event.wait(duration_ms / 1000)


class AsyncClock(Protocol):
    """As `Clock`, for a client whose waiting is awaited."""

    def monotonic_ms(self) -> int: ...

    async def sleep_ms(self, duration_ms: int) -> None: ...


class AsyncSystemClock:
    """`AsyncClock` over the operating system and the event loop."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)  # noqa: TID251 - this is the clock
