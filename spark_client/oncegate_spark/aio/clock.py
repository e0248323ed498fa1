"""The machine's clock and the event loop's sleep, as an argument."""

import asyncio
import time
from typing import Protocol


class AsyncClock(Protocol):
    """As `Clock`, for a client whose waiting is awaited."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed time; never goes back."""

    async def sleep_ms(self, duration_ms: int) -> None:
        """Wait so long, while others on the event loop run."""


class AsyncSystemClock:
    """`AsyncClock` over the operating system and the event loop."""

    def monotonic_ms(self) -> int:
        """Milliseconds since the machine's start."""
        return time.monotonic_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        """Wait so long, while others on the event loop run."""
        await asyncio.sleep(duration_ms / 1000)  # noqa: TID251 - this is the clock
