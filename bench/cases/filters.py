"""Compares Bloom filters with pybloom-live and rbloom: check-and-add, and false positives.

Run it with `python -m bench.cases.filters`.

Batches of 10,000 ids, a tenth of them repeated, fill a filter for a million ids. The filters take turns at each batch;
a figure is the median over the batches, in processor time. Each filter gets ids prepared in its fastest form: ours 16
bytes per id in one array, pybloom-live texts, rbloom bytes. Then our filter is measured alone when it is larger than
the processor's caches, compared with a random read of a word there, the lower bound of any filter. The false-positive
rate is measured over ids that were never added. Writes out/bench/filters.json.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pybloom_live import BloomFilter
from rbloom import Bloom
from rich.console import Console
from rich.progress import Progress

from oncegate.index.lsm.bloom import Filter, make

BATCH = 10_000
DUPLICATES = 0.1
CAPACITY = 1_000_000
LARGE_IDS, LARGE_IDS_QUICK = 200_000_000, 30_000_000
ASKED, ASKED_SLOWLY = 10_000_000, 300_000  # in arrays, and id by id
SEED = 20240611
OURS, PYBLOOM, RBLOOM = "blocked", "pybloom-live", "rbloom"
Keys = NDArray[np.uint64]
Figure = dict[str, object]


def texts_of(keys: Keys) -> list[str]:
    """Converts keys to texts of 32 hexadecimal digits, for pybloom."""
    digits = keys.tobytes().hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def bytes_of(keys: Keys) -> list[bytes]:
    """Splits keys into 16 bytes each, for rbloom."""
    data = keys.tobytes()
    return [data[at : at + 16] for at in range(0, len(data), 16)]


def check_and_add(ours: Filter, keys: Keys) -> None:
    """Looks up a batch of keys in our filter, then adds them."""
    ours.might_hold(keys)
    ours.add(keys)


def check_and_add_texts(bloom: BloomFilter, texts: list[str]) -> None:
    """Adds texts to pybloom's filter, whose `add` returns whether each was present."""
    for text in texts:
        bloom.add(text)  # returns whether it was present


def check_and_add_bytes(bloom: Bloom, keys: list[bytes]) -> None:
    """Looks up each key in rbloom's filter, then adds them all."""
    [key in bloom for key in keys]
    bloom.update(keys)


def batches(rng: np.random.Generator, ids: int) -> list[Keys]:
    """Returns batches of random ids; a tenth of each batch repeats ids of earlier batches."""
    key_batches: list[Keys] = []
    for _ in range(ids // BATCH):
        keys = rng.integers(0, 1 << 64, (BATCH, 2), dtype=np.uint64)
        if key_batches:
            again = key_batches[int(rng.integers(len(key_batches)))]
            keys[: int(BATCH * DUPLICATES)] = again[: int(BATCH * DUPLICATES)]
        key_batches.append(rng.permutation(keys))
    return key_batches


def timed(call: Callable[..., None], *arguments: object) -> float:
    """Returns the thread's processor time for one batch, in nanoseconds per id."""
    start = time.thread_time_ns()
    call(*arguments)
    return (time.thread_time_ns() - start) / BATCH


def check_and_add_figures(fpr: float, ids: int) -> list[Figure]:
    """Measures ids per second and bytes per id of three filters, ours and two others, filled up to `ids`."""
    ours, pybloom, rbloom = make("blocked", ids, fpr), BloomFilter(ids, fpr), Bloom(ids, fpr)
    check_and_add(make("blocked", BATCH, fpr), batches(np.random.default_rng(SEED), BATCH)[0])  # compiles the kernels
    cost: dict[str, list[float]] = {OURS: [], PYBLOOM: [], RBLOOM: []}
    for keys in batches(np.random.default_rng(SEED), ids):
        texts, packed = texts_of(keys), bytes_of(keys)
        cost[OURS].append(timed(check_and_add, ours, keys))
        cost[PYBLOOM].append(timed(check_and_add_texts, pybloom, texts))
        cost[RBLOOM].append(timed(check_and_add_bytes, rbloom, packed))
    rate = {name: 1e9 / float(np.median(of)) for name, of in cost.items()}
    size = {OURS: ours.size_bytes, PYBLOOM: pybloom.bitarray.nbytes, RBLOOM: math.ceil(rbloom.size_in_bits / 8)}
    name = f"Bloom filter of {ids:,} ids at {fpr:.1%}"
    return [
        figure
        for peer in (PYBLOOM, RBLOOM)
        for figure in (
            compared(f"{name}: check-and-add, batches of {BATCH:,}", rate[OURS], "ids/s", peer, rate[peer]),
            compared(f"{name}: memory", size[OURS] / ids, "bytes/id", peer, size[peer] / ids),
        )
    ]


def rate_figures(fpr: float, ids: int, asked_slowly: int) -> list[Figure]:
    """Measures the false-positive rates relative to the configured one: 1 is exactly as configured."""
    rng = np.random.default_rng(SEED)
    keys, others = (rng.integers(0, 1 << 64, (count, 2), dtype=np.uint64) for count in (ids, ASKED))
    ours, few = make("blocked", ids, fpr), ids // 10
    ours.add(keys)
    pybloom, rbloom = BloomFilter(few, fpr), Bloom(few, fpr)
    check_and_add_texts(pybloom, texts_of(keys[:few]))
    rbloom.update(bytes_of(keys[:few]))
    slow = others[:asked_slowly]
    share = {
        OURS: ours.might_hold(others).mean(),
        PYBLOOM: np.mean([text in pybloom for text in texts_of(slow)]),
        RBLOOM: np.mean([key in rbloom for key in bytes_of(slow)]),
    }
    name = f"Bloom filter at {fpr:.1%}: false positives, measured by designed"
    return [compared(name, share[OURS] / fpr, "", peer, share[peer] / fpr) for peer in (PYBLOOM, RBLOOM)]


def large_figure(ids: int) -> Figure:
    """Measures our filter when it is so large that each word is a cache miss."""
    rng, ours = np.random.default_rng(SEED), make("blocked", ids, 0.01)
    for _ in range(20):  # full enough that every part is touched
        ours.add(rng.integers(0, 1 << 64, (ids // 40, 2), dtype=np.uint64))
    cost, read, words = [], [], np.ones(ours.size_bytes // 8, np.uint64)
    for _ in range(200):
        keys = rng.integers(0, 1 << 64, (BATCH, 2), dtype=np.uint64)
        at = rng.integers(0, len(words), BATCH)
        cost.append(timed(check_and_add, ours, keys))
        read.append(timed(words.take, at))
    name = f"Bloom filter of {ids:,} ids at 1.0%: check-and-add, batches of {BATCH:,}"
    value, peer_value = 1e9 / float(np.median(cost)), 1e9 / float(np.median(read))
    return compared(name, value, "ids/s", "one random read of memory an id", peer_value)


def compared(name: str, value: float, unit: str, peer: str, peer_value: float) -> Figure:
    """Returns a figure of a value and a peer's, with their ratio."""
    ratio = value / peer_value
    values = (round(float(value), 3), round(float(peer_value), 3), round(float(ratio), 3))
    return {"name": name, "value": values[0], "unit": unit, "peer": peer, "peer_value": values[1], "ratio": values[2]}


def figures(quick: bool, each: Callable[[], Any] = lambda: None) -> list[Figure]:
    """Measures all filters; calls `each` after each of the five parts. `quick`: takes half a minute."""
    all_figures: list[Figure] = []
    ids = CAPACITY // 2 if quick else CAPACITY
    parts: list[Callable[[], list[Figure]]] = [
        lambda: check_and_add_figures(0.01, ids),
        lambda: check_and_add_figures(0.001, ids),
        lambda: rate_figures(0.01, ids, ASKED_SLOWLY),
        lambda: rate_figures(0.001, ids, ASKED_SLOWLY if quick else 10 * ASKED_SLOWLY),
        lambda: [large_figure(LARGE_IDS_QUICK if quick else LARGE_IDS)],
    ]
    for part in parts:
        all_figures += part()
        each()
    return all_figures


def main() -> int:
    """Prints the figures of Bloom filters and writes out/bench/filters.json."""
    parser = argparse.ArgumentParser(prog="bench.cases.filters")
    parser.add_argument("--quick", action="store_true", help="smaller filters, fewer questions")
    options = parser.parse_args()
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("filters", total=5)
        all_figures = figures(options.quick, lambda: bar.advance(task))
    for figure in all_figures:
        value, peer_value = (f"{figure[key]:,}" for key in ("value", "peer_value"))
        print(f"{figure['name']}: {value} {figure['unit']}; {figure['peer']} {peer_value}; ratio {figure['ratio']}")
    out = Path("out/bench")
    out.mkdir(parents=True, exist_ok=True)
    (out / "filters.json").write_text(json.dumps(all_figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
