"""Sends claims of one new id each at intended times, from its own process; latencies count from those times."""

import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from multiprocessing.sharedctypes import Synchronized
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

# Maximum of claims in flight; further ones wait for a connection, and the wait counts as latency.
CONNECTIONS = 256
PATIENCE_S = 300.0
# The intended time of a claim (monotonic), its latency in seconds, and whether it was granted.
Claim = tuple[float, float, bool]


class OpenClaims:
    """Claims `rate` ids per second from a gateway on 127.0.0.1 until `told` is called."""

    def __init__(self, port: int, rate: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._end, (self._told, telling) = context.Value("d", float("inf")), context.Pipe(duplex=False)
        self._process = context.Process(target=_claim_on, args=(port, rate, self._end, telling), daemon=True)
        self._process.start()
        assert self._told.recv() == "begun"

    def told(self) -> list[Claim]:
        """Ends the load; returns all claims due until now, including those not sent yet, by their intended times."""
        self._end.value = time.monotonic()
        claims: list[Claim] = self._told.recv()
        self._process.join()
        return sorted(claims)

    def close(self) -> None:
        """Kills the process."""
        self._process.kill()


@contextmanager
def open_claims(port: int, rate: float) -> Iterator[OpenClaims]:
    """Sends claims until the context exits, at the latest."""
    claims = OpenClaims(port, rate)
    with closing(claims):
        yield claims


def within(claims: Sequence[Claim], begin: float, end: float) -> list[float]:
    """Returns the latencies, in ms and ascending, of the claims due in [begin, end)."""
    return sorted(1_000 * wait for due, wait, _ in claims if begin <= due < end)


def _claim_on(port: int, rate: float, end: "Synchronized[float]", telling: Any) -> None:
    turns, lock, claims = _due(rate, end), Lock(), list[Claim]()

    def claim() -> None:
        with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
            while True:
                with lock:
                    due = next(turns, None)
                if due is None:
                    return
                is_granted = _is_granted(connection)
                claims.append((due, time.monotonic() - due, is_granted))

    threads = [Thread(target=claim) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    telling.send("begun")
    for thread in threads:
        thread.join()
    telling.send(claims)


def _due(rate: float, end: "Synchronized[float]") -> Iterator[float]:
    """Yields each intended time once it has come; skips none before the end."""
    due = time.monotonic()
    while due < end.value:
        time.sleep(max(0.0, due - time.monotonic()))
        yield due
        due += 1 / rate


def _is_granted(connection: HTTPConnection) -> bool:
    body = json.dumps({"token": uuid4().hex, "call": 0, "ids": [uuid4().hex]})
    # Without a deadline the gateway would refuse claims in an overload that these wait for.
    headers = {"Content-Type": "application/json", "Oncegate-Timeout-Ms": f"{1000 * PATIENCE_S:.0f}"}
    connection.request("POST", "/v1/namespaces/default/ids:claim", body, headers)
    answer = connection.getresponse()
    said = answer.read()
    return answer.status == 200 and b"GRANTED" in said
