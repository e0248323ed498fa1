"""A namespace with slow requests, for tests of refusals because of the queue."""

import json

from oncegate.engine.admission import QUEUE_REQUESTS, Backlog
from tests.support.http_app import Served, token


def claim(*ids: str) -> bytes:
    return json.dumps({"token": token(), "call": 0, "ids": ids or ["a"]}).encode()


def slow(http: Served) -> Backlog:
    """Records past requests of the namespace that took 0.1 seconds each."""
    backlog = http.program.gateway.namespace("default").backlog
    now_ms = http.program.gateway.clock.monotonic_ms()
    for number in range(10):
        backlog.enter(0, now_ms + 100 * number)
        backlog.leave(0, now_ms + 100 * number + 100)
    return backlog


def fill(http: Served) -> Backlog:
    """Queues `QUEUE_REQUESTS` slow requests."""
    backlog, now_ms = slow(http), http.program.gateway.clock.monotonic_ms()
    for _ in range(QUEUE_REQUESTS):
        backlog.enter(0, now_ms)
    return backlog
