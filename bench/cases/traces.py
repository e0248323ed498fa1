"""Measures the cost of traces, in claims per second of the gateway's processor time: `python -m bench.cases.traces`.

Gateways on one core each answer the same small claims, in turns: without OpenTelemetry's variables, with a caller that
does not sample, with every request sampled and, with `--before TREE`, the program of another working copy. A collector
receives the spans and discards them. Prints the median of each variant and all its runs.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench.load.server import gateway
from bench.load.worker import Worker, worker
from bench.report.figures import Figure, interleaved
from bench.report.reaches import NO_TRACES

CLIENTS, IDS = 64, 1
# Number of rounds, and seconds per run.
LONG, QUICK = (9, 3.0), (2, 0.5)


@contextmanager
def collector() -> Iterator[str]:
    """Runs a collector that discards what it receives; yields its URL."""

    class Taking(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def variants(endpoint: str, before: Path | None) -> dict[str, Mapping[str, str]]:
    """Returns the environment of each variant's gateway."""
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    environments: dict[str, Mapping[str, str]] = {
        "off": {},
        "on, 1 % sampled": {**on, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"},
        "on, all sampled": on,
    }
    return environments if before is None else {"before": {"PYTHONPATH": str(before / "service")}, **environments}


def figures(load: Worker, quick: bool) -> list[Figure]:
    """Compares the rates with a caller that does not sample, and with every request sampled, to that without traces."""
    rounds, seconds = QUICK if quick else LONG
    runs = measured(load, rounds, seconds)
    off = runs.pop("off")["rate"]
    own = [Figure(name(sampled), row["rate"], "claims/s of core", runs=row["runs"]) for sampled, row in runs.items()]
    return [figure.against(NO_TRACES, off) for figure in own]


def name(variant: str) -> str:
    """Returns the name of the figure of a variant with traces."""
    return f"claim with traces, packed, {IDS} ids, {CLIENTS} clients, {variant.removeprefix('on, ')}"


def measured(load: Worker, rounds: int, seconds: float, before: Path | None = None) -> dict[str, dict[str, Any]]:
    """Measures each variant's claims per second of the gateway's processor time."""
    with ExitStack() as stack:
        endpoint = stack.enter_context(collector())
        works = {}
        for variant, environment in variants(endpoint, before).items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            served = stack.enter_context(gateway(folder, settings=environment))
            load.run(served, "prefill", live=1_000, ids=1_000)
            job = {"ids": IDS, "clients": CLIENTS, "seconds": seconds, "live": 1_000}
            works[variant] = partial(_per_processor_second, partial(load.run, served, "packed", **job))
        return interleaved(rounds, works)


def main() -> None:
    """Measures the variants and prints a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.cases.traces", description=__doc__)
    parser.add_argument("--before", type=Path, help="the tree of an earlier commit, measured too")
    parser.add_argument("--rounds", type=int, default=LONG[0])
    parser.add_argument("--seconds", type=float, default=LONG[1])
    options = parser.parse_args()
    with worker() as load:
        measured_runs = measured(load, options.rounds, options.seconds, options.before)
    off = measured_runs["off"]["rate"]
    for variant, row in measured_runs.items():
        runs = " ".join(f"{rate:,.0f}" for rate in row["runs"])
        share = row["rate"] / off
        sys.stdout.write(f"{variant}: {row['rate']:,.0f} claims a processor second, {share:.3f} of off ({runs})\n")


def _per_processor_second(run: "partial[dict[str, float]]") -> Mapping[str, float]:
    result = run()
    return {"rate": result["rate"] * result["seconds"] / IDS / result["cpu_s"]}


if __name__ == "__main__":
    main()
