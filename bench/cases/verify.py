"""Compares `oncegate verify --against` with anti-joins over a dump of the topic: `python -m bench.cases.verify`.

A gateway has a topic of rows written by id; ten rows of the input are missing and ten are doubled. Each way runs as its
own process, timed from start to result, in turns, and must find the twenty. The peers read the topic from a Parquet
file, whose creation is not counted, and query no ledger. `verify` reads the topic from the gateway and looks up every
id in the ledger. Nothing is pinned.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.load.server import gateway
from bench.report.figures import Figure, interleaved
from bench.report.reaches import ANTI_JOINS
from oncegate_spark import Gateway

ROWS, QUICK_ROWS, ROUNDS, QUICK_ROUNDS, SEED = 5_000_000, 200_000, 3, 2, 20240611
TOPIC, COLUMN, PLANTED, BATCH = "orders", "order_id", 10, 100_000
UUID_BYTES = 16


def figures(quick: bool) -> list[Figure]:
    """Measures the rate of the verb and of each peer. Raises RuntimeError if one misses a planted row."""
    rows, rounds = (QUICK_ROWS, QUICK_ROUNDS) if quick else (ROWS, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="oncegate-verify-") as place:
        folder = Path(place)
        with gateway(folder, core=None) as served:
            url = f"http://127.0.0.1:{served.port}"
            source, dump = _written(url, folder, rows)
            works: dict[str, Callable[[], Mapping[str, float]]] = {"verify": partial(_verified, url, source, rows)}
            works |= {peer: partial(_joined, way, source, dump, rows) for way, peer in ANTI_JOINS.items()}
            rates = interleaved(rounds, works)
    own = rates.pop("verify")
    figure = Figure(name(rows), own["rate"], "rows/s", runs=own["runs"])
    return [figure, *(figure.against(peer, row["rate"]) for peer, row in rates.items())]


def name(rows: int) -> str:
    """Returns the name of the verb's figure."""
    return f"verify, {rows:,} rows"


def _ids(rows: int) -> pa.Array:
    """Returns random ids of 32 hexadecimal digits, the length of a UUID without hyphens."""
    text = np.random.default_rng(SEED).bytes(rows * UUID_BYTES).hex()
    offsets = np.arange(rows + 1, dtype=np.int32) * 2 * UUID_BYTES
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text.encode()))


def _written(url: str, folder: Path, rows: int) -> tuple[Path, Path]:
    """Writes the input file, the dump, and the rows through the gateway: without the first ten, the last ten twice."""
    table = pa.table({COLUMN: _ids(rows), "cents": np.arange(rows)})
    source, dump = folder / "input.parquet", folder / "topic.parquet"
    pq.write_table(table, source, row_group_size=BATCH)
    with Gateway(url, timeout_ms=60_000) as client, client.attempt() as attempt:
        for start in range(PLANTED, rows, BATCH):
            attempt.produce(TOPIC, table.slice(start, BATCH), id_col=COLUMN)
        attempt.produce(TOPIC, table.slice(rows - PLANTED))
    written = pa.concat_tables([table.slice(PLANTED), table.slice(rows - PLANTED)])
    pq.write_table(written, dump, row_group_size=BATCH)
    return source, dump


def _verified(url: str, source: Path, rows: int) -> dict[str, float]:
    state = source.parent / "state"
    arguments = ["verify", "--against", TOPIC, "--url", url, "--input", str(source), "--id-col", COLUMN, "--json"]
    output, took_s = _timed(["-m", "oncegate", *arguments, "--state", str(state)])
    counts = output["ids"]
    if (counts["not_written"], counts["doubled"], counts["ok"]) != (PLANTED, PLANTED, rows - 2 * PLANTED):
        raise RuntimeError(f"verify did not find what was planted: {counts}")
    return {"rate": rows / took_s}


def _joined(way: str, source: Path, dump: Path, rows: int) -> dict[str, float]:
    counts, took_s = _timed(["-m", "bench.load.anti_joins", way, str(source), str(dump), COLUMN])
    if counts != {"missing": PLANTED, "foreign": 0, "doubled": PLANTED}:
        raise RuntimeError(f"{way} did not find what was planted: {counts}")
    return {"rate": rows / took_s}


def _timed(arguments: list[str]) -> tuple[Any, float]:
    """Runs a process; returns the JSON that it printed and its duration in seconds."""
    began_s = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    took_s = time.perf_counter() - began_s
    if not done.stdout:
        raise RuntimeError(f"{' '.join(arguments)} ended with status {done.returncode}")
    return json.loads(done.stdout), took_s


if __name__ == "__main__":
    for one in figures("--short" in sys.argv[1:]):
        print(f"{one.name}: {one.value:,.0f} {one.unit}; {one.peer or 'itself'} {one.peer_value or one.value:,.0f}")
