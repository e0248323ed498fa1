"""Measures fingerprints of ids and rows in one thread: `python -m bench.cases.hashing`.

Prints the tenth and the fiftieth percentile of the wall time of 100 calls, in nanoseconds per id or row.
"""

import random
import time
from collections.abc import Callable

import pyarrow as pa

from oncegate.hashing.byte_strings import join
from oncegate.hashing.ids import Fingerprinter
from oncegate.hashing.rows import RowFingerprinter

CALLS = 100
KEY = bytes(range(32))


def measure(name: str, items: int, call: Callable[[], object]) -> None:
    """Prints the lowest decile and the median of the cost of one item in ns, and millions of items per second."""
    times = []
    call()
    for _ in range(CALLS):
        start = time.perf_counter_ns()
        call()
        times.append((time.perf_counter_ns() - start) / items)
    times.sort()
    low, middle = times[CALLS // 10], times[CALLS // 2]
    print(f"{name:44} {low:10.1f} ns {middle:10.1f} ns {1e3 / middle:8.2f} M/s")


def flights(rows: int, rng: random.Random) -> pa.RecordBatch:
    """Returns rows of ten columns: four strings, two integers, two floats, a timestamp, a boolean."""

    def column(make: Callable[[], object], kind: pa.DataType) -> pa.Array:
        return pa.array([make() for _ in range(rows)], kind)

    return pa.record_batch(
        {
            "id": column(lambda: f"{rng.getrandbits(144):036x}", pa.string()),
            "carrier": column(lambda: rng.choice(["AA", "UA", "B6"]), pa.string()),
            "tail": column(lambda: rng.choice([None, f"N{rng.randint(100, 99_999)}"]), pa.string()),
            "dest": column(lambda: rng.choice(["LAX", "SFO"]), pa.string()),
            "flight": column(lambda: rng.randint(1, 9_999), pa.int32()),
            "distance": column(lambda: rng.randint(1, 9_999), pa.int64()),
            "delay": column(lambda: rng.choice([None, rng.random()]), pa.float64()),
            "speed": column(rng.random, pa.float64()),
            "at": column(lambda: rng.randint(0, 1 << 50), pa.timestamp("us", "UTC")),
            "late": column(lambda: rng.random() < 0.5, pa.bool_()),
        }
    )


def main() -> None:
    """Prints the cost of hashing ids, joined columns and rows."""
    rng = random.Random(1)
    ids, rows = Fingerprinter(KEY), RowFingerprinter(KEY)
    for count in (1, 100, 1_000, 10_000, 100_000):
        packed = rng.randbytes(16 * count)
        equal = pa.array([f"{rng.getrandbits(144):036x}" for _ in range(count)])
        mixed = pa.array([rng.randbytes(rng.randint(30, 40)) for _ in range(count)])
        measure(f"{count} ids, packed", count, lambda packed=packed: ids.of_packed(packed))  # type: ignore[misc]
        measure(f"{count} ids of 36 characters", count, lambda equal=equal: ids.of_array(equal))  # type: ignore[misc]
        measure(f"{count} ids of 30 to 40 bytes", count, lambda mixed=mixed: ids.of_array(mixed))  # type: ignore[misc]
    batch = flights(10_000, rng)
    measure("join of 3 columns, 10000 rows", 10_000, lambda: join([batch["id"], batch["carrier"], batch["dest"]]))
    measure("print of 10000 rows of 10 columns", 10_000, lambda: rows.of_batch(batch))
    fixed = batch.select(["flight", "distance", "delay", "speed", "at", "late"])
    measure("print of 10000 rows of 6 fixed columns", 10_000, lambda: rows.of_batch(fixed))
    single = batch.slice(7, 1)
    measure("print of 1 row of 10 columns", 1, lambda: rows.of_batch(single))


if __name__ == "__main__":
    main()
