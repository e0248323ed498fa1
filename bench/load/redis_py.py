"""The most common alternative: redis-py (with hiredis), used as in its documentation, in the load process."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import redis
import redis.asyncio
import uvloop

from bench.load import bodies, resp
from bench.load.told import told

Job = dict[str, Any]
# Above the actual rates; only the keys are prepared.
_RATE, _SINGLE_RATE = 200e3, 40e3


def _keys(job: Job, rate: float) -> list[bytes]:
    count = max(int(rate * job["seconds"]), 2 * job["ids"])
    ids = bodies.mixed(job["stream"], count - count % job["ids"], job["live"])
    rows = bodies.text_of(ids) if job.get("text") else resp.raw_ids(ids)
    width, data = rows.shape[1], rows.tobytes()
    return [data[at : at + width] for at in range(0, len(data), width)]


def pipelined(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Measures one client that sends a pipeline of `SET NX EX`, one per id, for each request."""
    keys, count, wrong = _keys(job, _RATE), job["ids"], 0
    client = redis.Redis(port=job["port"])
    client.ping()
    go()
    begin, latencies = time.perf_counter(), []
    for at in range(0, len(keys), count):
        start = time.perf_counter()
        pipe = client.pipeline(transaction=False)
        for key in keys[at : at + count]:
            pipe.set(key, b"1", nx=True, ex=resp.EXPIRES_S)
        answers = pipe.execute()
        latencies.append(time.perf_counter() - start)
        if len(latencies) == 1:
            said = np.array([answer is not None for answer in answers])
            wrong = int((said == bodies.is_known(0, count)).sum())
        if time.perf_counter() - begin > job["seconds"]:
            break
    client.close()
    return told(latencies, count, time.perf_counter() - begin, wrong)


def asynchronous(job: Job, go: Callable[[], None]) -> dict[str, float]:
    """Measures `clients` tasks, each with one `SET NX EX` in flight."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_asynchronous(job, _keys(job, _SINGLE_RATE), go))


async def _asynchronous(job: Job, keys: list[bytes], go: Callable[[], None]) -> dict[str, float]:
    client = redis.asyncio.Redis(port=job["port"], max_connections=job["clients"])
    await asyncio.gather(*(client.ping() for _ in range(job["clients"])))
    left, latencies, wrong = iter(enumerate(keys)), [], 0
    go()
    begin = time.perf_counter()

    async def one_client() -> None:
        nonlocal wrong
        for number, key in left:
            start = time.perf_counter()
            new = await client.set(key, b"1", nx=True, ex=resp.EXPIRES_S)
            end = time.perf_counter()
            latencies.append(end - start)
            wrong += bool(new) == (number % bodies.KNOWN_EVERY == 0)
            if end - begin > job["seconds"]:
                return

    await asyncio.gather(*(one_client() for _ in range(job["clients"])))
    seconds = time.perf_counter() - begin
    await client.aclose()
    return told(latencies, 1, seconds, wrong)
