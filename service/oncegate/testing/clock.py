"""Clocks that stop until a test turns them: an object for the engine, and the clock of an event loop."""

import asyncio
import heapq

from oncegate.clock import sleep_s


class FakeClock:
    """Stands in for `ports.Clock`: time passes only in `advance`, and sleepers wake in the order of their deadlines."""

    def __init__(self, monotonic_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        self._wall_ms = wall_ms
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0

    def monotonic_ms(self) -> int:
        """Implements the port's `Clock.monotonic_ms`; begins where it was made to."""
        return self._monotonic_ms

    def wall_ms(self) -> int:
        """Implements the port's `Clock.wall_ms`."""
        return self._wall_ms

    @property
    def sleepers(self) -> int:
        """How many tasks wait for time to pass."""
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep_ms(self, duration_ms: int) -> None:
        """Implements the port's `Clock.sleep_ms`: returns once `advance` has come that far."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._monotonic_ms + max(0, duration_ms), self._count, future))
        self._wake()
        await future

    def advance(self, duration_ms: int) -> None:
        """Let both clocks run on; who slept until then runs when the caller next awaits."""
        assert duration_ms >= 0, "time never goes back; step_wall_ms does"
        self._monotonic_ms += duration_ms
        self._wall_ms += duration_ms
        self._wake()

    def step_wall_ms(self, step_ms: int) -> None:
        """Set the wall clock forward or back, as an operator or NTP would; the monotonic one does not move."""
        self._wall_ms += step_ms

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._monotonic_ms:
            future = heapq.heappop(self._sleepers)[2]
            if not future.done():
                future.set_result(None)


class TurnedLoop(asyncio.SelectorEventLoop):
    """Runs an event loop whose clock stops at `now_s` until `turn`. Sockets and threads go on, timers wait.

    All that `oncegate.clock` reads runs on it, and so do asyncio's timeouts and timers, those of libraries too.
    """

    now_s = 0.0

    def time(self) -> float:
        return self.now_s

    async def turn(self, duration_s: float) -> None:
        """Lets `duration_s` seconds pass at once, then runs what became due, as `settle`."""
        assert duration_s >= 0, "time never goes back"
        self.now_s += duration_s
        await self.settle()

    async def settle(self) -> None:
        """Returns once every task waits: for time, a socket, a thread or another task."""
        await sleep_s(0)
        while self._ready:  # type: ignore[attr-defined]
            await sleep_s(0)


def turned_loop() -> TurnedLoop:
    """Returns the running loop; AssertionError: its clock is not turned."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, TurnedLoop), "run this in a TurnedLoop"
    return loop
