"""Clocks that advance only when a test advances them: one for the engine, and one for an event loop."""

import asyncio
import heapq

from oncegate.clock import sleep_s


class FakeClock:
    """A `ports.Clock` for tests: time passes only in `advance`; sleepers wake in the order of their deadlines."""

    def __init__(self, monotonic_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    @property
    def sleepers(self) -> int:
        """Returns the number of tasks that wait for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep_ms(self, duration_ms: int) -> None:
        """Waits until `advance` has reached the deadline."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._monotonic_ms + max(0, duration_ms), self._count, future))
        self._wake()
        await future

    def advance(self, duration_ms: int) -> None:
        """Advances both clocks. Sleepers that are due run when the caller next awaits."""
        assert duration_ms >= 0, "time never goes back; step_wall_ms does"
        self._monotonic_ms += duration_ms
        self._wall_ms += duration_ms
        self._wake()

    def step_wall_ms(self, step_ms: int) -> None:
        """Steps the wall clock forward or back, as an operator or NTP would; the monotonic clock does not move."""
        self._wall_ms += step_ms

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._monotonic_ms:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)


class TurnedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock advances only by `turn`. Sockets and threads run, timers wait.

    Everything that `oncegate.clock` reads uses it, and so do asyncio's timeouts and timers, including those of
    libraries.
    """

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    async def turn(self, duration_s: float) -> None:
        """Advances the clock by `duration_s` seconds, then runs everything that is due, like `settle`."""
        assert duration_s >= 0, "time never goes back"
        self.now_s += duration_s
        await self.settle()

    async def settle(self) -> None:
        """Runs the loop until every task waits for time, a socket, a thread or another task."""
        await sleep_s(0)
        while self._ready:  # type: ignore[attr-defined]
            await sleep_s(0)


def turned_loop() -> TurnedLoop:
    """Returns the running event loop. Raises AssertionError unless it is a `TurnedLoop`."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnedLoop), "run this in a TurnedLoop"
    return loop
