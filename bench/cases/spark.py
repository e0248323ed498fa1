"""Compares writes from Spark through the gateway with Spark's own: files, and deduplication in its state store.

Staged rows are compared with Parquet files and with `noop`, which only produces the rows; rows of `lineitem`, by
`staged` and by `ids`, with the same. Then a stream with 10 % duplicates is written completely: by `staged` (each
micro-batch once) and by `ids` (each id once), compared with Spark's deduplication before a Parquet sink. Spark and the
gateway share the cores. Run it with `python -m bench.cases.spark [--short]`.
"""

import json
import sys
import tempfile
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases import lineitem
from bench.cases.spark_jobs import (
    STORES,
    WARM,
    Dedup,
    batch_frame,
    deduplicate,
    make_stream,
    session,
    timed,
    write_batch,
)
from bench.load.plan import LONG, SHORT, Plan
from bench.load.server import Served, gateway
from bench.report.figures import Figure, interleaved

FASTEST = "the faster of Spark's streaming deduplications"
WARM_ROWS = 20_000
# Number of micro-batches, of a million rows each in the long form.
FILES, FILES_SHORT = 10, 3
_SHORT = ("staged", "ids", "dropDuplicatesWithinWatermark")


def figures(quick: bool) -> list[dict[str, Any]]:
    """Measures all figures, with its own Spark and gateway."""
    plan = SHORT if quick else LONG
    with tempfile.TemporaryDirectory(prefix="oncegate-bench-") as folder:
        path = Path(folder)
        (path / "gateway").mkdir()
        spark = session(path)
        try:
            with gateway(path / "gateway", core=None) as served:
                all_figures = staged(spark, served, path, plan) + lineitem.figures(spark, served, path, plan)
                all_figures += deduplicated(spark, served, path, plan)
        finally:
            spark.stop()
    return [figure.plain() for figure in all_figures]


def staged(spark: Any, served: Served, folder: Path, plan: Plan) -> list[Figure]:
    """Measures staged rows of a 36-byte key and a 100-byte payload, cached by Spark before the clock starts."""
    rows = plan.staged_rows
    write = partial(write_batch, served=served, folder=folder)
    for way in ("oncegate", "parquet", "noop"):
        write(batch_frame(spark, WARM_ROWS), way)
    frame = batch_frame(spark, rows)
    works = {way: partial(timed, rows, write, frame, way) for way in ("oncegate", "parquet", "noop")}
    rates = interleaved(plan.rounds, works)
    frame.unpersist()
    name = f"Spark, staged write of {rows:,} rows"
    own = Figure(name, rates["oncegate"]["rate"], "rows/s", runs=rates["oncegate"]["runs"])
    return [own, own.against("parquet files", rates["parquet"]["rate"]), own.against("noop", rates["noop"]["rate"])]


def deduplicated(spark: Any, served: Served, folder: Path, plan: Plan) -> list[Figure]:
    """Measures rows per second of each way; compares ours with the faster of Spark's two ways with a watermark."""
    rows = plan.dedup_rows
    warm = make_stream(spark, folder / "warm", WARM_ROWS, 1)
    stream = make_stream(spark, folder / "stream", rows, FILES_SHORT if plan.short else FILES)
    _create(served, WARM)
    rates: dict[str, float] = {}
    chosen = {name: store for name, store in STORES.items() if not plan.short or store[1] in _SHORT}
    jobs = {name: Dedup(name, store, stream, folder, rows) for name, store in chosen.items()}
    deduplicate(spark, Dedup(WARM, STORES["ids"], warm, folder, WARM_ROWS), served)
    for name, job in jobs.items():
        rates[name] = timed(rows, deduplicate, spark, job, served)["rate"]
    _check(served, "ids", rows - rows // 10)
    _check(served, "staged", rows)
    theirs = {name: rate for name, rate in rates.items() if name not in ("staged", "ids")}
    faster = max(theirs.values())
    all_figures = [Figure(f"Spark, {name} to Parquet, {rows:,} rows", rate, "rows/s") for name, rate in theirs.items()]
    for name in ("staged", "ids"):
        own = Figure(f"Spark, deduplicated by {name}, {rows:,} rows", rates[name], "rows/s")
        all_figures += [own.against(FASTEST, faster), *(own.against(peer, rate) for peer, rate in theirs.items())]
    return all_figures


def _create(served: Served, namespace: str) -> None:
    url = f"http://127.0.0.1:{served.port}/v1/namespaces/{namespace}"
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):
        pass


def _check(served: Served, topic: str, rows: int) -> None:
    """Raises RuntimeError unless the topic has this number of rows."""
    url = f"http://127.0.0.1:{served.port}/v1/namespaces/default/topics/{topic}"
    with urllib.request.urlopen(url) as answer:
        answer_of_gateway = json.load(answer)
    written = sum(answer_of_gateway["high_offsets"])
    if written != rows:
        raise RuntimeError(f"{topic}: {written} rows were written, {rows} were to be")


if __name__ == "__main__":
    print(json.dumps(figures("--short" in sys.argv), indent=1))
