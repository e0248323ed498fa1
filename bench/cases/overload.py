"""Measures overload: requests at four times the capacity and at half of it, each on its own connection.

python -m bench.cases.overload [--requests 9300] [--ids 1000] [--repeat 1] [--tree FOLDER]

The gateway has one core, the generator the other. Prints for each run the outcomes of the requests, and the latencies
of accepted ones from their intended send time. `generator_late`: the part of the latency before the request was sent;
`no_answer`: the number of requests without a complete response within 60 s.
`--tree`: measures the gateway of another working copy, with its `service` and `spark_client`.
"""

import argparse
import errno
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.load.cores import LOAD, SERVER, pinned

ANSWER_S, START_S = 60.0, 600.0
CLOSED_CLIENTS, CLOSED_S = 16, 5.0
OVERLOAD, HALF = 4.0, 0.5


def request(ids: int) -> bytes:
    """Returns a claim of new ids, with `Connection: close`."""
    start = secrets.token_hex(6)
    members = {"token": secrets.token_hex(16), "call": 0, "ids": [f"{start}-{number}" for number in range(ids)]}
    body = json.dumps(members).encode()
    head = "POST /v1/namespaces/default/ids:claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Pending(NamedTuple):
    """A request in flight. `due_s`: its intended send time; `late_ms`: the delay until it was sent."""

    sock: socket.socket
    raw: bytes
    due_s: float
    late_ms: float
    sent: int = 0
    answer: bytes = b""


class Answer(NamedTuple):
    """The status of a complete response, or the kind of error, and the time since the request was due."""

    status: str
    ms: float
    late_ms: float


class Generator:
    """Sends requests, each on its own socket, and receives the responses.

    Uses plain sockets and epoll. With an asyncio task and protocol per request, the generator would spend as much time
    on a request as the gateway spends on a refusal, and its own delay would be attributed to the gateway.
    """

    def __init__(self, port: int) -> None:
        self._address, self._epoll = ("127.0.0.1", port), select.epoll()
        self.under_way: dict[int, Pending] = {}

    def begin(self, raw: bytes, due_s: float) -> None:
        """Connects, and sends as much of the request as the socket accepts."""
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(self._address)
        self.under_way[sock.fileno()] = Pending(sock, raw, due_s, (time.monotonic() - due_s) * 1_000)
        self._epoll.register(sock, select.EPOLLOUT)
        self._send(sock.fileno())

    def answers(self, wait_s: float) -> Iterator[Answer]:
        """Yields the responses that arrive within `wait_s`; abandons requests without one after ANSWER_S."""
        for number, event in self._epoll.poll(max(wait_s, 0)):
            status = self._send(number) if event & select.EPOLLOUT else self._receive(number)
            if status is not None:
                yield self._ended(number, status)
        oldest = next(iter(self.under_way), None)
        if oldest is not None and time.monotonic() - self.under_way[oldest].due_s > ANSWER_S:
            yield self._ended(oldest, "TimeoutError")

    def _send(self, number: int) -> str | None:
        request = self.under_way[number]
        try:
            sent = request.sent + request.sock.send(memoryview(request.raw)[request.sent :])
        except OSError as error:
            is_waiting = error.errno in (errno.EAGAIN, errno.EINPROGRESS, errno.ENOTCONN)
            return None if is_waiting else type(error).__name__
        self.under_way[number] = request._replace(sent=sent)
        if sent == len(request.raw):
            self._epoll.modify(number, select.EPOLLIN)
        return None

    def _receive(self, number: int) -> str | None:
        request = self.under_way[number]
        try:
            data = request.sock.recv(64 << 10)
        except OSError as error:
            return type(error).__name__
        came = request.answer + data
        head, end, body = came.partition(b"\r\n\r\n")
        if end and len(body) == int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return head.split(maxsplit=2)[1].decode()
        self.under_way[number] = request._replace(answer=came)
        return None if data else "EOFError"

    def _ended(self, number: int, status: str) -> Answer:
        request = self.under_way.pop(number)
        request.sock.close()
        return Answer(status, (time.monotonic() - request.due_s) * 1_000, request.late_ms)


def closed(port: int, ids: int) -> float:
    """Returns the requests per second of a closed loop."""
    generator, done = Generator(port), 0
    end_s = time.monotonic() + CLOSED_S
    for _ in range(CLOSED_CLIENTS):
        generator.begin(request(ids), time.monotonic())
    while generator.under_way:
        for answer in generator.answers(1.0):
            done += answer.status == "200"
            if time.monotonic() < end_s:
                generator.begin(request(ids), time.monotonic())
    return done / CLOSED_S


def opened(port: int, ids: int, rate: float, count: int) -> dict[str, Any]:
    """Sends requests at their intended times, regardless of earlier ones; returns their outcomes."""
    # A repeated body contains known ids, which cost as much as new ones.
    raws = [request(ids) for _ in range(min(count, 2_000))]
    generator, answers = Generator(port), list[Answer]()
    begin_s, sent = time.monotonic(), 0
    while sent < count or generator.under_way:
        if sent < count and (due_s := begin_s + sent / rate) <= time.monotonic():
            generator.begin(raws[sent % len(raws)], due_s)
            sent += 1
            sent_s = time.monotonic() - begin_s
            wait_s = 0.0
        else:
            wait_s = 1.0 if sent == count else begin_s + sent / rate - time.monotonic()
        answers.extend(generator.answers(wait_s))
    of_status: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        of_status[answer.status].append(answer.ms)
    return {
        "rate": round(rate),
        "rate_sent": round(count / sent_s),
        "answers": {status: len(times_ms) for status, times_ms in of_status.items()},
        "no_answer": count - len(of_status["200"]) - len(of_status["503"]),
        "accepted_p50_ms": _quantile(of_status["200"], 50),
        "accepted_p99_ms": _quantile(of_status["200"], 99),
        "refused_p99_ms": _quantile(of_status["503"], 99),
        "generator_late_p99_ms": _quantile([answer.late_ms for answer in answers], 99),
    }


def _quantile(times_ms: list[float], percent: int) -> float | None:
    return round(float(np.percentile(times_ms, percent)), 1) if times_ms else None


def measured(port: int, count: int, ids: int) -> dict[str, Any]:
    """Measures the capacity, then runs at half and at four times of it."""
    closed(port, ids)
    capacity = closed(port, ids)
    half = opened(port, ids, HALF * capacity, max(100, count // 8))
    overload = opened(port, ids, OVERLOAD * capacity, count)
    ratio = None
    if overload["accepted_p99_ms"] is not None:
        ratio = round(overload["accepted_p99_ms"] / half["accepted_p99_ms"], 1)
    result = {"capacity": round(capacity), "half": half, "overload": overload, "p99_ratio": ratio}
    return result | {"load_average": os.getloadavg()[0]}


def main() -> None:
    """Starts a gateway for each repetition, and prints the results as a line of JSON each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=9_300)
    parser.add_argument("--ids", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--tree", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    pinned(LOAD)()
    for _ in range(arguments.repeat):
        with tempfile.TemporaryDirectory() as folder:
            tree = arguments.tree.resolve()
            environment = os.environ | {"PYTHONPATH": f"{tree / 'service'}:{tree / 'spark_client'}"}
            environment["ONCEGATE_OPEN_CLAIMS"] = str(10_000_000)
            port_file = Path(folder, "port")
            command = [sys.executable, "-m", "oncegate", "serve", "--port", "0", "--port-file", str(port_file)]
            with Path(folder, "log").open("wb") as log:
                process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, preexec_fn=pinned(SERVER))
            try:
                end_s = time.monotonic() + START_S
                while not port_file.exists() and time.monotonic() < end_s and process.poll() is None:
                    time.sleep(0.1)
                port = int(port_file.read_text())
                sys.stdout.write(json.dumps(measured(port, arguments.requests, arguments.ids)) + "\n")
                sys.stdout.flush()
            finally:
                process.terminate()
                process.wait(60)


if __name__ == "__main__":
    main()
