"""A clock for the client that moves only when somebody sleeps."""

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
