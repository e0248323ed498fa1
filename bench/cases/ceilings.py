"""Measures the limits that this machine sets for any gateway: memory latency and syncs of the disk."""

import os
import time
from pathlib import Path

import numpy as np
from numba import njit

from bench.report.figures import Figure

# The size of the table of ten million ids, far larger than any cache.
TABLE_BYTES = 256 << 20
WALK_STEPS = 2_000_000
SYNCS = 100


@njit(cache=True)  # type: ignore[untyped-decorator]
def _walk(places: np.ndarray, steps: int) -> int:  # type: ignore[type-arg]
    """Follows a chain of reads: each depends on the one before, so none overlap."""
    at = 0
    for _ in range(steps):
        at = places[at]
    return at


@njit(cache=True)  # type: ignore[untyped-decorator]
def _gather(places: np.ndarray, wanted: np.ndarray) -> int:  # type: ignore[type-arg]
    """Sums independent reads, which overlap as far as the processor allows."""
    total = 0
    for at in wanted:
        total += places[at]
    return total


def memory() -> list[Figure]:
    """Measures the time of a random read from a table of TABLE_BYTES, dependent and overlapping."""
    words = TABLE_BYTES // 8
    rng = np.random.default_rng(1)
    # A random cycle through all positions (Sattolo), built from a permutation.
    order = rng.permutation(words)
    places = np.empty(words, np.int64)
    places[order[:-1]], places[order[-1]] = order[1:], order[0]
    wanted = rng.integers(0, words, WALK_STEPS)
    _walk(places, 10)
    _gather(places, wanted[:10])
    times = []
    for work in (lambda: _walk(places, WALK_STEPS), lambda: _gather(places, wanted)):
        start = time.thread_time()
        work()
        times.append((time.thread_time() - start) / WALK_STEPS * 1e9)
    name = f"ceiling: a random read of {TABLE_BYTES >> 20} MiB"
    return [Figure(f"{name}, one after another", times[0], "ns"), Figure(f"{name}, overlapping", times[1], "ns")]


def syncs(folder: Path) -> list[Figure]:
    """Measures appends as large as claims of 1 and of 10,000 ids, with one `fdatasync` each."""
    times = []
    for ids, size_bytes in ((1, 4_096), (10_000, 163_840)):
        data = np.random.default_rng(ids).bytes(size_bytes)
        with (folder / f"syncs-{ids}").open("wb", buffering=0) as file:
            start = time.perf_counter()
            for _ in range(SYNCS):
                file.write(data)
                os.fdatasync(file.fileno())
            seconds = (time.perf_counter() - start) / SYNCS
        times.append(Figure(f"ceiling: one append and fdatasync of {size_bytes:,} bytes", 1_000 * seconds, "ms"))
        times.append(Figure(f"ceiling: {ids:,} ids a commit, one sync a commit", ids / seconds, "ids/s"))
    return times


def figures(folder: Path) -> list[Figure]:
    """Measures all limits."""
    return [*memory(), *syncs(folder)]
