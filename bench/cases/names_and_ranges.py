"""Measures memory and time used by committed names and row ranges: `python -m bench.cases.names_and_ranges`.

Commits of a stream, each with one range, are applied to an index and to a ledger's catalog. Both are then saved, as by
a compaction, and restored, as at a start. Memory is that of the process; times are processor time of one thread.
"""

import argparse
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from oncegate.core.entries.codec import encode
from oncegate.core.entries.kinds import Committed, Name, SnapshotPiece, Span, TopicCreated
from oncegate.index.shard import ShardIndex, warm_up
from oncegate.ledgers.catalog import Catalog, Location, Published, Wrote

NAMES = 1_000_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MS = 1_000


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


def _index_of(names: int) -> ShardIndex:
    index = ShardIndex()
    index.apply(1, TopicCreated("departures", 1, b"", 0, 0, 0), 0)
    for number in range(names):
        name, nonce, digest = Name("7c1f5a36-7b5c-4f5c-9a58-0b2f7f0c4d11", str(number), "departures"), *_random()
        spans = (Span(0, 10 * number, 10, 900),)
        index.apply(number + 2, Committed(name, digest, nonce, (), digest, nonce, 10, spans, number), 0)
    return index


def _random() -> tuple[bytes, bytes]:
    return os.urandom(16), os.urandom(32)


def _catalog_of(ranges: int) -> Catalog:
    catalog = Catalog()
    for number in range(ranges):
        range_id, sha256 = _random()
        catalog.apply(Wrote(range_id, 10, Location(1, number // 16_000 + 1, 4_096 * (number % 16_000), 900, sha256)))
        catalog.apply(Published("departures", 0, 10 * number, (range_id,)))
    return catalog


def _steps(steps: Iterator[list[bytes]]) -> tuple[float, int, list[bytes]]:
    """Runs all steps; returns the longest in milliseconds, the number of bytes, and the produced pieces."""
    longest_s, made = 0.0, list[bytes]()
    while True:
        begun_s = time.thread_time()
        step = next(steps, None)
        longest_s = max(longest_s, time.thread_time() - begun_s)
        if step is None:
            return longest_s * _MS, sum(map(len, made)), made
        made += step


def _of_names(names: int) -> str:
    warm_up()
    for _ in ShardIndex().snapshot():
        pass
    before = _memory_bytes()
    index = _index_of(names)
    memory_bytes = _memory_bytes() - before
    begun_s = time.thread_time()
    pieces = index.snapshot_steps()
    copied_ms = (time.thread_time() - begun_s) * _MS
    kept = list[SnapshotPiece]()

    def encoded() -> Iterator[list[bytes]]:
        for step in pieces:
            kept.extend(step)
            yield [encode(piece) for piece in step]

    longest_ms, size_bytes, _ = _steps(encoded())
    again, begun_s = ShardIndex(), time.thread_time()
    for piece in kept:
        again.replayed(names + 2, piece)
    restored_s = time.thread_time() - begun_s
    return _line("names, with a range each", names, memory_bytes, size_bytes, copied_ms, longest_ms, restored_s)


def _of_ranges(ranges: int) -> str:
    before = _memory_bytes()
    catalog = _catalog_of(ranges)
    memory_bytes = _memory_bytes() - before
    begun_s = time.thread_time()
    pieces = catalog.pieces()
    copied_ms = (time.thread_time() - begun_s) * _MS
    longest_ms, size_bytes, made = _steps([piece] for piece in pieces)
    again, begun_s = Catalog(), time.thread_time()
    for piece in made:
        again.take(piece)
    # The queries of a start over all locations: files named, files in use, ranges by file, ends of files.
    for _ in range(4):
        again.files()
    restored_s = time.thread_time() - begun_s
    return _line("ranges in the catalog", ranges, memory_bytes, size_bytes, copied_ms, longest_ms, restored_s)


def _line(
    what: str, count: int, memory_bytes: int, size_bytes: int, copied_ms: float, longest_ms: float, restored_s: float
) -> str:
    return (
        f"{count:,} {what}: {memory_bytes / count:.1f} bytes of memory each, {size_bytes / count:.1f} saved; "
        f"copied at once in {copied_ms:.2f} ms, the longest step {longest_ms:.2f} ms; restored in {restored_s:.2f} s"
    )


def main() -> None:
    """Prints a line for names and one for ranges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=NAMES)
    count = parser.parse_args().count
    # A process each, since memory freed by one would be reused by the other.
    for measured in (_of_names, _of_ranges):
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            print(process.submit(measured, count).result())


if __name__ == "__main__":
    main()
