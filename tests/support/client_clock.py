"""A clock for clients that advances only while they sleep."""

import asyncio
import threading


class SteppedClock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.slept_ms: list[int] = []

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.slept_ms.append(duration_ms)
        self.now_ms += duration_ms

    def wait_ms(self, event: threading.Event, duration_ms: int) -> bool:
        return event.wait(30)


class AsyncSteppedClock:
    """The same clock for the asyncio client; other tasks run during a sleep."""

    def __init__(self, clock: SteppedClock) -> None:
        self._clock = clock

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    async def sleep_ms(self, duration_ms: int) -> None:
        self._clock.sleep_ms(duration_ms)
        await asyncio.sleep(0)  # noqa: TID251 - only lets others run
