"""The load process: reads jobs, a JSON object per line; prepares each, prints "ready", waits for "go" and measures.

A job has kind, port, ids (per request), clients, seconds, stream (of its new ids), live (number of known ids) and, for
some kinds, `rate` (requests per second, open loop) or `text` (Redis keys of 36 characters instead of 16 bytes).
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import uvloop

from bench.load import confluent, grpc_claims, hot, prefill, redis_py
from bench.load.kinds import KINDS, Prepared
from bench.load.wire import Run, drive

# The first part of a run is not counted, while buffers and caches fill.
WARM_FRACTION = 0.15


def measure(job: dict[str, Any], go: Callable[[], None]) -> dict[str, float]:
    """Runs a job; returns ids per second, latencies in ms, and the number of wrong verdicts in the sample."""
    prepared = KINDS[job["kind"]](job)
    run = Run(prepared.requests, prepared.answer_bytes, prepared.follow, job.get("rate"), job["seconds"])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(drive(run, job["port"], job["clients"], go))
    return {**counted(run, job["ids"]), "wrong": wrong(run, prepared, job["ids"]), "sent": run.next * job["ids"]}


def counted(run: Run, ids: int) -> dict[str, float]:
    """Returns rate and latencies of the responses after the warm-up, or of all if there are few."""
    ends, latencies = np.array(run.ends_s), np.array(run.latencies_s)
    order = np.argsort(ends)
    ends, latencies = ends[order], latencies[order]
    warm_s = run.begin_s + WARM_FRACTION * (ends[-1] - run.begin_s)
    skipped = int(np.searchsorted(ends, warm_s))
    start_s = ends[skipped - 1] if skipped else run.begin_s
    p50, p99 = np.percentile(latencies[skipped:], [50, 99]) * 1_000
    rate = ids * (len(ends) - skipped) / (ends[-1] - start_s)
    seconds = ends[-1] - run.begin_s
    return {"rate": rate, "p50_ms": p50, "p99_ms": p99, "answers": len(ends), "seconds": seconds, "late_s": late_s(run)}


def late_s(run: Run) -> float:
    """Returns the delay of the last response after the end of an open loop; 0.0 for a closed one."""
    return 0.0 if run.rate is None else max(0.0, max(run.ends_s) - run.begin_s - run.seconds)


def wrong(run: Run, prepared: Prepared, ids: int) -> int:
    """Counts the wrong verdicts in the sampled responses: known ids must be known, all others new."""
    if prepared.new is None:
        return 0
    count = 0
    for number, answer in run.samples:
        said, expected = prepared.new(answer), prepared.known(number * ids, ids)
        if len(said) != ids:
            raise RuntimeError(f"{len(said)} verdicts for {ids} ids: {answer[:200]!r}")
        count += int((said == expected).sum())
    return count


def _go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


WORK: dict[str, Callable[[dict[str, Any], Callable[[], None]], dict[str, float]]] = {
    "prefill": prefill.gateway,
    "prefill_redis": prefill.redis,
    "forget_redis": prefill.forget,
    "redis_py": redis_py.pipelined,
    "redis_async": redis_py.asynchronous,
    "confluent_produce": confluent.one_by_one,
    "confluent_batches": confluent.by_batches,
    "grpc_calls": grpc_claims.calls,
    "grpc_streams": grpc_claims.streams,
    "hot": hot.tenant,
}


def _timed(job: dict[str, Any]) -> dict[str, float]:
    """Runs a job; adds `load_cpu_s`, the processor time of this process (all threads) since its clock started."""
    began_s: list[float] = []

    def go() -> None:
        _go()
        began_s.append(time.process_time())

    result = WORK.get(job["kind"], measure)(job, go)
    return {**result, "load_cpu_s": time.process_time() - began_s[0]}


def main() -> None:
    """Runs jobs, a line of JSON each, and prints the result or the error of each."""
    for line in sys.stdin:
        job = json.loads(line)
        try:
            result = _timed(job)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}  # type: ignore[dict-item]
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
