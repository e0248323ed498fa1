"""The system's clock; the only file that reads it."""

import asyncio
import time


class SystemClock:
    """`ports.Clock` over the operating system's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)  # noqa: TID251 - this is the clock
