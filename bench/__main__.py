"""First figures of the gateway: `make bench`.

Claims per second through HTTP, durable, packed and JSON, 1 to 100,000 ids a request, 10 % duplicates; staged rows
per second. Each figure is the sum over client processes that share the machine with the gateway. Then the growth of
an index to 50 million ids, in a process of its own (`bench.growth`). Writes out/bench/result.json and
out/bench/result.png.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.growth import IDS as GROWTH_IDS
from bench.server import gateway

SIZES = (1, 100, 1_000, 10_000, 100_000)
STAGE_ROWS = 10_000
# What `--quick` asks for.
QUICK_SECONDS, QUICK_GROWTH_IDS = 1.0, 5_000_000


def measure(port: int, kind: str, ids: int, clients: int, seconds: float) -> dict[str, object]:
    """One figure: `clients` processes at once."""
    command = [sys.executable, "-m", "bench.load", str(port), kind, str(ids), str(seconds)]
    pipe = subprocess.PIPE
    loads = [subprocess.Popen([*command, str(seed)], stdin=pipe, stdout=pipe, text=True) for seed in range(clients)]
    for load in loads:
        assert load.stdout is not None
        load.stdout.readline()
    answers = [json.loads(answer) for answer in _go(loads)]
    rate = sum(answer["ids"] for answer in answers) / max(answer["seconds"] for answer in answers)
    unit = "rows/s" if kind == "stage" else "ids/s"
    return {
        "name": f"{kind} {ids:,} ids, {clients} clients" if kind != "stage" else f"staged rows, {ids:,} a chunk",
        "kind": kind,
        "ids": ids,
        "value": round(rate),
        "unit": unit,
        "p50_ms": round(max(answer["p50_ms"] for answer in answers), 3),
        "p99_ms": round(max(answer["p99_ms"] for answer in answers), 3),
    }


def _go(loads: "list[subprocess.Popen[str]]") -> list[str]:
    """Let all clients begin at once; what each printed."""
    for load in loads:
        assert load.stdin is not None
        load.stdin.write("go\n")
        load.stdin.flush()
    return [load.communicate()[0] for load in loads]


def growth(ids: int) -> list[dict[str, object]]:
    """The figures of `bench.growth`; its progress bar is shown."""
    subprocess.run([sys.executable, "-m", "bench.growth", "--ids", str(ids)], check=True, stdout=subprocess.DEVNULL)
    found: list[dict[str, object]] = json.loads(Path("out/bench/growth.json").read_text())
    return found


def draw(figures: list[dict[str, object]], path: Path) -> None:
    """Ids per second over ids per request, a line for each door."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for kind in ("packed", "json"):
        points = [(row["ids"], row["value"]) for row in figures if row.get("kind") == kind]
        axes.loglog(*zip(*points, strict=True), marker="o", label=f"claim, {kind}")
    axes.set(xlabel="ids per request", ylabel="ids per second, durable", title="Oncegate: claims through HTTP")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench")
    parser.add_argument("--seconds", type=float, default=3.0, help="per figure and client")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--growth-ids", type=int, default=GROWTH_IDS, help="0: no growth")
    parser.add_argument("--quick", action="store_true", help="a second a figure, growth to five million ids")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.growth_ids = QUICK_SECONDS, QUICK_GROWTH_IDS
    out = Path("out/bench")
    out.mkdir(parents=True, exist_ok=True)
    plan = [(kind, ids) for kind in ("packed", "json") for ids in SIZES] + [("stage", STAGE_ROWS)]
    figures = []
    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task("bench", total=len(plan))
        for kind, ids in plan:
            bar.update(task, description=f"{kind} {ids:,}")
            with tempfile.TemporaryDirectory(prefix="oncegate-bench-") as folder, gateway(Path(folder)) as port:
                figures.append(measure(port, kind, ids, options.clients, options.seconds))
            bar.advance(task)
    if options.growth_ids:
        figures += growth(options.growth_ids)
    (out / "result.json").write_text(json.dumps(figures, indent=1) + "\n")
    draw(figures, out / "result.png")
    table = Table("what", "value", "unit", "p50 ms", "p99 ms")
    for row in figures:
        times = (str(row.get("p50_ms", "")), str(row.get("p99_ms", "")))
        table.add_row(str(row["name"]), f"{row['value']:,}", str(row["unit"]), *times)
    Console().print(table)
    print(f"bench: {len(figures)} figures in {out / 'result.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
