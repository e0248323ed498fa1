"""Slows work in a thread to so many bytes a second, so that requests meanwhile find the disk free."""

import asyncio

from oncegate.ports import Clock


class Stopped(Exception):
    """Says, in the thread, that the work is not needed any more."""


class RateLimit:
    """Lets one thread at a time write so many bytes a second; the first second's worth is free. Made on the loop."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._since_ms = clock.monotonic_ms()
        self._spent = 0

    def spend(self, size_bytes: int) -> None:
        """Returns, in the thread, once so many more bytes may be written. Raises Stopped."""
        self._spent += size_bytes
        due_ms = self._since_ms + 1_000 * (self._spent - self._rate) // self._rate
        wait_ms = due_ms - self._clock.monotonic_ms()
        if wait_ms > 0 and not self._stop.is_set():
            asyncio.run_coroutine_threadsafe(self._rest(wait_ms), self._loop).result()
        if self._stop.is_set():
            raise Stopped

    async def _rest(self, wait_ms: int) -> None:
        sleeping = {asyncio.ensure_future(self._clock.sleep_ms(wait_ms)), asyncio.ensure_future(self._stop.wait())}
        try:
            await asyncio.wait(sleeping, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in sleeping:
                one.cancel()

    def stop(self) -> None:
        """Stops the work at its next piece; called on the loop."""
        self._stop.set()
