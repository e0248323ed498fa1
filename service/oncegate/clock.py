"""Reads the operating system's clocks and the event loop's. No other file of the service does; ruff and
`tests/meta/test_clock.py` hold that.

Code that runs in an event loop reads the clock of that loop, by `now_s` and `sleep_s`. asyncio's timeouts and timers
run on the same clock, and so do those of aiokafka, redis-py and uvicorn. The loop is therefore where the one clock is
injected: a test runs all of this in a `testing.clock.TurnedLoop` and lets hours pass without waiting. A clock object
passed through every constructor could not reach the timers of those libraries.

The engine takes a `ports.Clock` object instead: threads without a loop read its leases and deadlines too.
"""

import asyncio
import time


def now_s() -> float:
    """Returns the running event loop's monotonic clock in seconds since an arbitrary start."""
    return asyncio.get_running_loop().time()


# Returns after so many seconds of the running loop's clock; 0: after one turn of the loop.
sleep_s = asyncio.sleep


class SystemClock:
    """Implements `ports.Clock` with the operating system's clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_ms(self, duration_ms: int) -> None:
        await sleep_s(duration_ms / 1000)

    def block_ms(self, duration_ms: int) -> None:
        """Blocks the calling thread; meant for verbs and threads without an event loop."""
        time.sleep(duration_ms / 1000)


# Returns ms since 1970-01-01 UTC, by a clock that may be stepped: for labels, never for durations.
wall_ms = SystemClock().wall_ms
