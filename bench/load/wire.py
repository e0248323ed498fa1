"""Runs many clients on one event loop, each with one request in flight; responses are delimited by their length.

Closed loop: a client sends its next request after its response. Open loop: requests have intended times, and latencies
count from these even if no client was free, so they do not suffer from coordinated omission (Gil Tene).
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

_SAMPLES = 64
_HEAD_END, _LENGTH = b"\r\n\r\n", b"content-length: "


@dataclass
class Run:
    """The requests of a run, and its results.

    answer_bytes: length of a response; 0: an HTTP response, with its length in its head.
    follow: builds a second request from a response, or returns None; both together count as one request.
    latencies_s, ends_s: one entry per response. samples: (number of the request, whole response).
    """

    requests: Sequence[bytes]
    answer_bytes: int = 0
    follow: Callable[[bytes], bytes | None] | None = None
    rate: float | None = None
    seconds: float = 1.0
    next: int = 0
    begin_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)
    samples: list[tuple[int, bytes]] = field(default_factory=list)
    failed: str | None = None

    @property
    def sample_every(self) -> int:
        """Returns the number of requests per kept response, at least 1."""
        return max(1, len(self.requests) // _SAMPLES)


class Client(asyncio.Protocol):
    """A connection that sends a request and collects its response."""

    def __init__(self, run: Run, answered: "Callable[[Client], None]", gone: Callable[[str], None]) -> None:
        self._run = run
        self._answered = answered
        self._gone = gone
        self._left = 0
        self._parts: list[bytes] = []
        self._keep = self._following = False
        self._number = 0
        self._since_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport and lifts its buffer limit."""
        # uvloop's transports are not instances of asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.set_write_buffer_limits(high=1 << 30)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the run with the error."""
        self._gone(f"the connection was closed: {exc}")

    def send(self, number: int, since_s: float) -> None:
        """Sends a request whose latency counts from `since_s`."""
        run = self._run
        self._number, self._since_s, self._parts = number, since_s, []
        self._following = False
        self._keep = run.follow is not None or number % run.sample_every == 0
        self._left = run.answer_bytes
        self._transport.write(run.requests[number])

    def data_received(self, data: bytes) -> None:
        """Collects the bytes of a response and reports it to the run once it is complete."""
        if not self._left:
            data = self._begun(b"".join((*self._parts, data)))
            if not data:
                return
        if self._keep:
            self._parts.append(data)
        self._left -= len(data)
        if self._left <= 0:
            self._finished()

    def _begun(self, data: bytes) -> bytes:
        """Parses the head of an HTTP response; returns nothing, and keeps the data in `_parts`, if it is incomplete."""
        end = data.find(_HEAD_END)
        if end < 0:
            self._parts = [data]
            return b""
        self._parts = []
        if data[9:12] != b"200":
            self._gone(f"answered {data[:600]!r}")
            return b""
        at = data.find(_LENGTH, 0, end) + len(_LENGTH)
        self._left = end + len(_HEAD_END) + int(data[at : data.find(b"\r", at)])
        return data

    def _finished(self) -> None:
        run, answer = self._run, b"".join(self._parts)
        self._parts = []
        if answer and self._number % run.sample_every == 0:
            run.samples.append((self._number, answer))
        following = None if run.follow is None or self._following else run.follow(answer)
        if following is not None:
            self._following, self._keep = True, False
            self._transport.write(following)
            return
        now_s = time.perf_counter()
        run.latencies_s.append(now_s - self._since_s)
        run.ends_s.append(now_s)
        self._answered(self)

    def close(self) -> None:
        """Closes the connection without ending the run."""
        self._gone = _nobody
        self._transport.close()


def _nobody(_why: str) -> None:
    return None


async def drive(run: Run, port: int, clients: int, go: Callable[[], None]) -> None:
    """Connects, calls `go` (which returns when the clock may start), then sends until the time or the requests run out.

    Raises RuntimeError with the first response that is not a success.
    """
    loop = asyncio.get_running_loop()
    load = Closed(run, loop) if run.rate is None else Open(run, loop)
    made = [
        loop.create_connection(lambda: Client(run, load.answered, load.gone), "127.0.0.1", port) for _ in range(clients)
    ]
    connections = [client for _, client in await asyncio.gather(*made)]
    go()
    run.begin_s = time.perf_counter()
    load.begin(connections)
    await load.done
    for client in connections:
        client.close()
    if run.failed is not None:
        raise RuntimeError(run.failed)


class _Load:
    """The common part of the closed and the open loop: how a run ends."""

    def __init__(self, run: Run, loop: asyncio.AbstractEventLoop) -> None:
        self.run = run
        self.loop = loop
        self.done: asyncio.Future[None] = loop.create_future()
        self.flying = 0

    def gone(self, why: str) -> None:
        self.run.failed = why
        self._end()

    def _end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def _launch(self, client: Client, since_s: float) -> None:
        self.flying += 1
        self.run.next += 1
        client.send(self.run.next - 1, since_s)


class Closed(_Load):
    """The closed loop: each client always has one request in flight."""

    def begin(self, clients: Sequence[Client]) -> None:
        """Sends each client's first request."""
        for client in clients[: len(self.run.requests)]:
            self._launch(client, time.perf_counter())

    def answered(self, client: Client) -> None:
        """Sends the client's next request; ends the run after the last response."""
        self.flying -= 1
        now_s, run = time.perf_counter(), self.run
        if run.next < len(run.requests) and now_s - run.begin_s < run.seconds:
            self._launch(client, now_s)
        elif not self.flying:
            self._end()


class Open(_Load):
    """The open loop: requests at intended times, one every 1 / rate seconds."""

    def begin(self, clients: Sequence[Client]) -> None:
        """Starts the clock of the intended times."""
        self._idle = deque(clients)
        self._late: deque[float] = deque()
        assert self.run.rate is not None
        self._step_s = 1.0 / self.run.rate
        self._intended = 0
        self._wanted = min(len(self.run.requests), int(self.run.seconds * self.run.rate))
        self._tick()

    def _tick(self) -> None:
        now_s, begin_s = time.perf_counter(), self.run.begin_s
        while self._intended < self._wanted and begin_s + self._intended * self._step_s <= now_s:
            self._late.append(begin_s + self._intended * self._step_s)
            self._intended += 1
        self._send()
        if self._intended < self._wanted:
            wait_s = begin_s + self._intended * self._step_s - time.perf_counter()
            self.loop.call_later(max(0.0, wait_s), self._tick)

    def _send(self) -> None:
        while self._late and self._idle:
            self._launch(self._idle.popleft(), self._late.popleft())

    def answered(self, client: Client) -> None:
        """Frees the client for a request that is due; ends the run after the last response."""
        self.flying -= 1
        self._idle.append(client)
        self._send()
        if self._intended == self._wanted and not self.flying:
            self._end()
