"""Measures the index of claims from 0 to 50 million ids: its longest pause, its memory and its rate.

Run it with `python -m bench.cases.growth`.

New random fingerprints are claimed and completed in requests of 10,000, without a ledger or transport. A pause is the
duration of one request: making room, then applying and settling claim and completion. On a busy machine the wall time
includes waits for the processor, so pauses are reported in processor time as well. Memory is the growth of the
process (RSS), and separately that of the arrays alone. Writes out/bench/growth.json.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from oncegate.core.entries.kinds import Claimed, Completed
from oncegate.index.claims.apply import apply, settle
from oncegate.index.claims.store import ClaimStore
from oncegate.index.shard import warm_up

IDS = 50_000_000
BATCH = 10_000
SEED = 20240611
# Random fingerprints are generated in pools of this size, outside the measured time.
POOL_IDS = 200_000


def fingerprints(batch: int, total: int) -> Iterator[NDArray[np.uint64]]:
    """Yields batches of random ids, shape (batch, 2)."""
    rng = np.random.default_rng(SEED)
    for done in range(0, total, POOL_IDS):
        pool = rng.integers(0, 1 << 64, (min(POOL_IDS, total - done), 2), dtype=np.uint64)
        yield from (pool[at : at + batch] for at in range(0, len(pool), batch))


def grow(total: int, batch: int, each: Callable[[int], None] = lambda ids: None) -> list[dict[str, object]]:
    """Measures one growth to `total` ids; calls `each` with the number of ids added."""
    warm_up()
    process, rng, pauses, store = psutil.Process(), np.random.default_rng(SEED + 1), [], ClaimStore()
    rss_before = process.memory_info().rss
    for call, ids in enumerate(fingerprints(batch, total)):
        claim, raw = rng.bytes(16), ids.tobytes()
        start, start_cpu = time.perf_counter(), time.thread_time()
        add(store, call, claim, raw, len(ids))
        pauses.append((time.perf_counter() - start, time.thread_time() - start_cpu))
        each(len(ids))
    rss = process.memory_info().rss - rss_before
    return figures(store, total, batch, np.array(pauses) * 1000, rss)


def add(store: ClaimStore, call: int, claim: bytes, ids: bytes, count: int) -> None:
    """Applies a claim of new ids and its completion, both durable, five milliseconds after the previous ones."""
    now_ms = 5 * call
    store.make_room(count, now_ms)
    claimed = apply(store, 2 * call + 1, Claimed(claim, claim, call, claim, 30_000, now_ms, ids, b""), now_ms)
    completed = apply(store, 2 * call + 2, Completed(claim, now_ms), now_ms)
    assert claimed is not None
    assert completed is not None
    settle(store, claimed)
    settle(store, completed)


def figures(
    store: ClaimStore, total: int, batch: int, pauses_ms: NDArray[np.float64], rss: int
) -> list[dict[str, object]]:
    """Returns pauses in ms, memory in bytes per id and the rate from what `grow` measured; `rss` is in bytes."""
    name = f"growth to {total:,} ids, {batch:,} a request"
    wall_ms, cpu_ms = pauses_ms[:, 0], pauses_ms[:, 1]
    rows: list[tuple[str, float, str]] = [
        ("longest pause", float(wall_ms.max()), "ms"),
        ("longest pause, processor time", float(cpu_ms.max()), "ms"),
        ("p99", float(np.percentile(wall_ms, 99)), "ms"),
        ("p50", float(np.percentile(wall_ms, 50)), "ms"),
        ("memory, process", rss / total, "bytes/id"),
        ("memory, arrays", store.size_bytes / total, "bytes/id"),
        ("rate", 1000 * total / float(wall_ms.sum()), "ids/s"),
        ("rate, processor time", 1000 * total / float(cpu_ms.sum()), "ids/s"),
    ]
    return [{"name": f"{name}: {what}", "value": round(value, 3), "unit": unit} for what, value, unit in rows]


def main() -> int:
    """Prints the figures of growth and writes out/bench/growth.json."""
    parser = argparse.ArgumentParser(prog="bench.cases.growth")
    parser.add_argument("--ids", type=int, default=IDS)
    parser.add_argument("--batch", type=int, default=BATCH, help="ids a request")
    options = parser.parse_args()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("growth", total=options.ids)
        windows = grow(options.ids, options.batch, lambda ids: bar.advance(task, ids))
    for figure in windows:
        print(f"{figure['name']}: {figure['value']:,} {figure['unit']}")
    out = Path("out/bench")
    out.mkdir(parents=True, exist_ok=True)
    (out / "growth.json").write_text(json.dumps(windows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
