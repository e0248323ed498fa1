"""Clock and sleep of the asyncio client, injected so that tests control time."""

import asyncio
import time
from typing import Protocol


class AsyncClock(Protocol):
    """Clock of a client that awaits its pauses."""

    def monotonic_ms(self) -> int:
        """Returns milliseconds since a fixed time; never decreases."""

    async def sleep_ms(self, duration_ms: int) -> None: ...


class AsyncSystemClock:
    """`AsyncClock` over the operating system and the event loop."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1000)  # noqa: TID251 - this is the clock
