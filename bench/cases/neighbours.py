"""Measures the effect of a hot tenant on the latencies of others: `python -m bench.cases.neighbours`.

A gateway on one core answers a quiet tenant's small claims, sent at intended times. Another tenant sends as much as it
can from its own process on the other core: with a quota that it obeys, with one that it ignores, and without a quota.
Prints the latencies of the quiet tenant, with and without the other, run in turns.
"""

import argparse
import json
import tempfile
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench.load.server import Served, gateway
from bench.load.worker import Worker, worker

# The quiet tenant sends 200 claims of 100 ids per second; each late claim needs a further free connection.
QUIET: Mapping[str, Any] = {"ids": 100, "clients": 64, "rate": 200.0, "live": 100_000}
HOT: Mapping[str, Any] = {"ids": 10_000, "clients": 16, "namespace": "hot"}
# A tenth of the rate that one namespace reaches on one core.
QUOTA = {"ONCEGATE_IDS_PER_SECOND": "200000"}
JSON = {"content-type": "application/json"}
ALONE = "alone"
CASES: Mapping[str, tuple[Mapping[str, str], bool]] = {
    "a hot tenant obeys its quota": (QUOTA, True),
    "a hot tenant disobeys its quota": (QUOTA, False),
    "a hot tenant without a quota": ({}, False),
}


def beside(folder: Path, settings: Mapping[str, str], obeys: bool, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """Returns the runs of one case, each after a run of the quiet tenant alone on the same gateway."""
    with ExitStack() as stack:
        served = stack.enter_context(gateway(folder, settings=settings))
        quiet, hot = stack.enter_context(worker()), stack.enter_context(worker())
        threads = stack.enter_context(ThreadPoolExecutor(1))
        _made(served, HOT["namespace"])
        quiet.run(served, "prefill", live=QUIET["live"], ids=10_000, text=False)
        rows: list[dict[str, Any]] = []
        for _ in range(rounds):
            rows.append({"case": ALONE, **_quiet(quiet, served, seconds)})
            going = threads.submit(hot.run, served, "hot", obeys=obeys, seconds=seconds + 2, **HOT)
            rows.append({"case": "beside", **_quiet(quiet, served, seconds)})
            rows[-1]["hot"] = going.result()
        return rows


def _quiet(load: Worker, served: Served, seconds: float) -> dict[str, float]:
    row = load.run(served, "packed", seconds=seconds, **QUIET)
    return {name: row[name] for name in ("p50_ms", "p99_ms", "late_s")}


def _made(served: Served, namespace: str) -> None:
    url = f"http://127.0.0.1:{served.port}/v1/namespaces/{namespace}"
    with urllib.request.urlopen(urllib.request.Request(url, data=b"{}", headers=JSON, method="PUT")) as answer:
        answer.read()


def main() -> None:
    """Prints a line for each case, and a JSON line for each of its runs."""
    parser = argparse.ArgumentParser(prog="bench.cases.neighbours", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, (settings, obeys)) in enumerate(CASES.items()):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            runs = beside(folder, settings, obeys, options.seconds, options.rounds)
            for run in runs:
                print(json.dumps(run), flush=True)
            print(f"{name}: " + _told(runs), flush=True)


def _told(runs: list[dict[str, Any]]) -> str:
    p99 = {case: median(run["p99_ms"] for run in runs if run["case"] == case) for case in (ALONE, "beside")}
    ratio = p99["beside"] / p99[ALONE]
    return f"p99 of the other {p99['beside']:.2f} ms, alone {p99[ALONE]:.2f} ms, {ratio:.2f}x"


if __name__ == "__main__":
    main()
