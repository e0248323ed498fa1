"""Claims of one new id each, at intended times, from a process of its own; each wait counts from the intended time."""

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

# As many may wait for the gateway at once; what is due beyond them waits for a connection, which counts as well.
CONNECTIONS = 256
PATIENCE_S = 300.0
# When a claim was due, by the monotonic clock, and for how many seconds it waited; whether it was granted.
Claim = tuple[float, float, bool]


class OpenClaims:
    """Claims `rate` ids a second at 127.0.0.1 until `told` is asked for."""

    def __init__(self, port: int, rate: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._end, (self._told, telling) = context.Value("d", float("inf")), context.Pipe(duplex=False)
        self._process = context.Process(target=_claim_on, args=(port, rate, self._end, telling), daemon=True)
        self._process.start()
        assert self._told.recv() == "begun"

    def told(self) -> list[Claim]:
        """Ends it; returns all claims, in the order in which they were due: also those that had not been sent yet."""
        self._end.value = time.monotonic()
        claims: list[Claim] = self._told.recv()
        self._process.join()
        return sorted(claims)

    def close(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()


@contextmanager
def open_claims(port: int, rate: float) -> Iterator[OpenClaims]:
    """Claims from now on, until the context ends at the latest."""
    claims = OpenClaims(port, rate)
    with closing(claims):
        yield claims


def within(claims: Sequence[Claim], begin: float, end: float) -> list[float]:
    """Returns the waits, in ms, of what was due in this time, the shortest first."""
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
    """Yields each intended time once it has come, and leaves out none that was before the end."""
    due = time.monotonic()
    while due < end.value:
        time.sleep(max(0.0, due - time.monotonic()))
        yield due
        due += 1 / rate


def _is_granted(connection: HTTPConnection) -> bool:
    body = json.dumps({"token": uuid4().hex, "call": 0, "ids": [uuid4().hex]})
    connection.request("POST", "/v1/namespaces/default/ids:claim", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    return answer.status == 200 and b"GRANTED" in said
