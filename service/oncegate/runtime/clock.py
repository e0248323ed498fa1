"""The system's clock; the only file that reads it."""

import asyncio
import time


class SystemClock:
    """`ports.Clock` over the operating system's clocks."""

    def monotonic_ms(self) -> int:
        """Reads the clock that is never set, in ms."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Reads the wall clock, in ms since 1970."""
        return time.time_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        """Waits so many ms."""
        await asyncio.sleep(duration_ms / 1000)  # noqa: TID251 - this is the clock
