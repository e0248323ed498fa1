"""Overload: requests at four times the capacity, each on a connection of its own; and the same at half of it.

python -m bench.cases.overload [--requests 9300] [--ids 1000] [--repeat 1] [--tree FOLDER]

The gateway has one core, the generator the other. Prints, for each run, what the requests came to, and the latencies of
those that were accepted, from the intended time of sending; `generator_late`: how much of that passed before a request
was begun; `no_answer` counts those without a complete answer in 60 s.
`--tree`: measures the gateway of another working copy, whose `service` and `spark_client` are taken.
"""

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from bench.load.cores import LOAD, SERVER, pinned

ANSWER_S, START_S = 60.0, 600.0
CLOSED_CLIENTS, CLOSED_S = 16, 5.0
OVERLOAD, HALF = 4.0, 0.5


def request(ids: int) -> bytes:
    """A claim of new ids, on a connection that it closes."""
    start = secrets.token_hex(6)
    members = {"token": secrets.token_hex(16), "call": 0, "ids": [f"{start}-{number}" for number in range(ids)]}
    body = json.dumps(members).encode()
    head = "POST /v1/namespaces/default/ids:claim HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Asked(asyncio.Protocol):
    """Sends a request once it is connected, and keeps the status of a whole answer, else the end of the connection.

    A protocol, for streams cost the generator as much a request as a refusal costs the gateway.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw, self._came, self._bytes = raw, b"", -1
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:  # uvloop's derives from no class of asyncio
        """Sends the request."""
        self._transport = transport
        transport.write(self._raw)

    def data_received(self, data: bytes) -> None:
        """Ends the connection once the answer is whole."""
        self._came += data
        if self._bytes < 0 and (end := self._came.find(b"\r\n\r\n")) >= 0:
            length = self._came[:end].lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            self._bytes = end + 4 + int(length)
        if 0 <= self._bytes <= len(self._came):
            self._end(self._came.split(maxsplit=2)[1].decode())

    def connection_lost(self, error: Exception | None) -> None:
        """Ends with the kind of error, unless the answer is whole."""
        self._end(type(error or EOFError()).__name__)

    def _end(self, came: str) -> None:
        if not self.answer.done():
            self.answer.set_result(came)
        self._transport.close()


async def asked(port: int, raw: bytes) -> str:
    """Sends a request; returns the status of a whole answer, else the kind of error that it ended with."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, protocol = await asyncio.get_running_loop().create_connection(lambda: Asked(raw), "127.0.0.1", port)
            return await protocol.answer
    except (OSError, TimeoutError) as error:
        return type(error).__name__


async def closed(port: int, ids: int) -> float:
    """Returns the requests a second that some clients have answered, one after the other each."""
    end_s = time.monotonic() + CLOSED_S

    async def client() -> int:
        done = 0
        while time.monotonic() < end_s:
            done += await asked(port, request(ids)) == "200"
        return done

    return sum(await asyncio.gather(*(client() for _ in range(CLOSED_CLIENTS)))) / CLOSED_S


async def opened(port: int, ids: int, rate: float, count: int) -> dict[str, Any]:
    """Sends requests at their times, whatever became of those before; returns what they came to."""
    came: Counter[str] = Counter()
    accepted_ms: list[float] = []
    refused_ms: list[float] = []
    raws = [request(ids) for _ in range(min(count, 2_000))]
    begin_s = time.monotonic()

    late_ms: list[float] = []

    async def one(number: int) -> None:
        late_ms.append((time.monotonic() - begin_s - number / rate) * 1_000)
        # A body that was sent before names ids that are known: it costs what others do.
        status = await asked(port, raws[number % len(raws)])
        came[status] += 1
        times = {"200": accepted_ms, "503": refused_ms}.get(status)
        if times is not None:
            times.append((time.monotonic() - begin_s - number / rate) * 1_000)

    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []
    all_sent = loop.create_future()

    def send(number: int) -> None:
        tasks.append(loop.create_task(one(number)))
        if number == count - 1:
            all_sent.set_result(None)

    for number in range(count):
        loop.call_later(number / rate, send, number)
    await all_sent
    sent_s = time.monotonic() - begin_s
    await asyncio.gather(*tasks)
    return {
        "rate": round(rate),
        "rate_sent": round(count / sent_s),
        "answers": dict(came),
        "no_answer": count - came["200"] - came["503"],
        "accepted_p50_ms": _quantile(accepted_ms, 50),
        "accepted_p99_ms": _quantile(accepted_ms, 99),
        "refused_p99_ms": _quantile(refused_ms, 99),
        "generator_late_p99_ms": _quantile(late_ms, 99),
    }


def _quantile(times_ms: list[float], percent: int) -> float | None:
    return round(float(np.percentile(times_ms, percent)), 1) if times_ms else None


async def measured(port: int, count: int, ids: int) -> dict[str, Any]:
    """Measures the capacity, half of it and four times of it."""
    await closed(port, ids)
    capacity = await closed(port, ids)
    half = await opened(port, ids, HALF * capacity, max(100, count // 8))
    overload = await opened(port, ids, OVERLOAD * capacity, count)
    ratio = None
    if overload["accepted_p99_ms"] is not None:
        ratio = round(overload["accepted_p99_ms"] / half["accepted_p99_ms"], 1)
    result = {"capacity": round(capacity), "half": half, "overload": overload, "p99_ratio": ratio}
    return result | {"load_average": os.getloadavg()[0]}


def main() -> None:
    """Starts a gateway for each repetition, and prints what was measured, a line of JSON each."""
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
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    result = runner.run(measured(port, arguments.requests, arguments.ids))
                sys.stdout.write(json.dumps(result) + "\n")
                sys.stdout.flush()
            finally:
                process.terminate()
                process.wait(60)


if __name__ == "__main__":
    main()
