"""Runs `make bench`: measures every claim about speed and the alternatives that a user would choose, in one run.

Starts gateways and a Redis on 127.0.0.1, each on one core, with the load on another. The long form takes twenty
minutes, `--short` (or `--quick`) two. Writes out/bench/result.json, .md and .png.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.cases import ceilings, claims, grpc, kafka, kept, open_loop, redis_ledger, traces
from bench.cases.setting import Setting
from bench.load.plan import LONG, SHORT, Plan
from bench.load.worker import worker
from bench.report import report
from bench.report.figures import Figure, judged, read, unanswered
from bench.report.reaches import REACHES

OUT = Path("out/bench")
# Sections that come first, while nothing else uses memory.
BESIDE_REDIS = ("claims", "singles", "redis")
Section = Callable[[Setting], list[Figure]]


def sections(plan: Plan) -> dict[str, Section]:
    """Returns the sections in order, by the name that `--only` accepts."""
    return {
        "ceilings": lambda setting: ceilings.figures(setting.folder),
        "claims": _claims,
        "singles": lambda setting: [
            figure for clients in plan.single_clients for figure in claims.singles(setting, clients)
        ],
        "redis": redis_ledger.figures,
        "grpc": grpc.figures,
        "grpc_servers": grpc.libraries,
        "traces": lambda setting: traces.figures(setting.load, setting.plan.short),
        "verifier": partial(_part, "bench.cases.verify"),
        "kept": kept.figures,
        "filters": partial(_part, "bench.cases.filters"),
        "growth": _growth,
        "start": partial(_part, "bench.cases.start"),
        "spark": partial(_part, "bench.cases.spark"),
        "kafka": lambda setting: kafka.figures(setting) + _part("bench.cases.kafka_spark", setting),
    }


def _claims(setting: Setting) -> list[Figure]:
    """Measures claims in each encoding, and latencies at half of the peak rates of the packed one."""
    plan = setting.plan
    all_figures = [figure for point in plan.points for figure in claims.batches(setting, "packed", *point)]
    for ids, clients in open_loop.PEAKS:
        peak = f"claim, packed, {ids:,} ids, {clients} clients"
        all_figures += open_loop.figures(
            setting, ids, next(figure.value for figure in all_figures if figure.name == peak)
        )
    return all_figures + [
        figure
        for door in ("arrow", "json")
        for point in plan.text_points
        for figure in claims.batches(setting, door, *point)
    ]


def _part(module: str, setting: Setting) -> list[Figure]:
    """Returns `figures(quick)` of a module, run in its own process."""
    setting.tell(module)
    code = f"import json; from {module} import figures; "
    code += f"print(json.dumps(figures({setting.plan.short}), default=lambda figure: figure.plain()))"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{module} ended with status {done.returncode}")
    return [read(members) for members in json.loads(done.stdout.splitlines()[-1])]


def _growth(setting: Setting) -> list[Figure]:
    setting.tell("growth")
    command = [sys.executable, "-m", "bench.cases.growth", "--ids", str(setting.plan.growth_ids)]
    quiet = subprocess.DEVNULL
    subprocess.run(command, check=True, stdout=quiet, stderr=quiet)
    return [read(members) for members in json.loads((OUT / "growth.json").read_text())]


def run(plan: Plan, only: list[str], console: Console) -> tuple[list[Figure], list[str]]:
    """Runs every section; returns the judged figures and the names of failed sections, which do not stop the others."""
    chosen = {name: work for name, work in sections(plan).items() if not only or name in only}
    done = Done(console)
    with (
        tempfile.TemporaryDirectory(prefix="oncegate-bench-") as folder,
        worker() as load,
        Progress(console=console, transient=True) as bar,
    ):
        task = bar.add_task("bench", total=len(chosen))
        setting = Setting(plan, load, Path(folder), partial(_tell, bar, task))
        with ExitStack() as stack:
            for name in [name for name in BESIDE_REDIS if name in chosen]:
                setting = setting if setting.beside else stack.enter_context(setting.beside_redis())
                done.take(name, chosen.pop(name), setting)
                bar.advance(task)
        for name, work in chosen.items():
            done.take(name, work, replace(setting, beside=None))
            bar.advance(task)
    return [judged(figure, REACHES) for figure in done.figures], done.failed


class Done:
    """The figures measured so far, and the sections that failed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.figures: list[Figure] = []
        self.failed: list[str] = []

    def take(self, name: str, work: Section, setting: Setting) -> None:
        """Measures a section and prints its duration."""
        began_s = time.monotonic()
        try:
            self.figures += work(setting)
        except (RuntimeError, OSError) as error:
            self.failed.append(name)
            self._console.print(f"[red]{name} could not be measured:[/red] {error}", highlight=False)
        self._console.print(f"{name}: {time.monotonic() - began_s:.0f} s", highlight=False)


def _tell(bar: Progress, task: object, what: str) -> None:
    bar.update(task, description=what)  # type: ignore[arg-type]


def main() -> int:
    """Measures the sections named on the command line and writes the report; returns 1 if a section failed."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--short", "--quick", action="store_true", help="two minutes: fewer points, shorter runs")
    parser.add_argument("--only", nargs="+", default=[], choices=list(sections(LONG)), help="these sections alone")
    options = parser.parse_args()
    began_s, console = time.monotonic(), Console(stderr=True)
    figures, failed = run(SHORT if options.short else LONG, options.only, console)
    if not options.only and not options.short:
        for reach in unanswered(figures, REACHES):
            failed.append(reach.name)
            console.print(f"[red]asked for, not measured:[/red] {reach.name} {reach.peer or ''}", highlight=False)
    command = shlex.join(["make", "bench", *([f"ARGS={' '.join(sys.argv[1:])}"] if sys.argv[1:] else [])])
    report.write(figures, OUT, command, time.monotonic() - began_s, report.before())
    report.show(figures, Console(width=None if sys.stdout.isatty() else 170))
    print(report.last_line(figures, OUT))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
