"""python -m demo: four runs, one gateway, one verdict. Exit status 0 only when everything promised was shown."""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from demo import compare, report
from demo.bars import Bars
from demo.data import BATCHES, PARTS, Flights, cut
from demo.faults import FAULTS, RUNS, SALTED
from demo.processes import ROOT, GatewayProcess, alone, end_as_ctrl_c, shown, temporary_files
from demo.supervisor import Ran, Run, RunFailed

INTERRUPTED = 130


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="emptied first  [default: out/demo]")
    out: Path = parser.parse_args().out.resolve()
    end_as_ctrl_c()
    console = Console(width=None if sys.stdout.isatty() else 160)
    began_s = time.monotonic()
    try:
        with alone(out), temporary_files(out / "tmp"):
            judged = demonstrate(console, out)
            return conclude(console, out, judged, time.monotonic() - began_s)
    except KeyboardInterrupt:
        console.print("[yellow]stopped; everything that was started is stopped too[/yellow]")
        return INTERRUPTED
    except (RunFailed, RuntimeError, OSError) as error:
        console.print(f"[red]the demo could not be finished:[/red] {error}", highlight=False)
        return 1


def demonstrate(console: Console, out: Path) -> list[report.Judged]:
    """The four runs, in an empty folder."""
    logs = out / "logs"
    logs.mkdir()
    flights, salted = cut(out / "data"), cut(out / "salted", salted=True)
    plan = f"{PARTS} files, {BATCHES} micro-batches, {len(FAULTS)} faults"
    console.print(f"{plan}; logs in {shown(logs)}", highlight=False)
    with GatewayProcess(out / "gateway", logs / "gateway.log") as gateway:
        runs = _run_all(console, out, {SALTED: salted}, flights, gateway)
        wanted = compare.expected()
        return [report.Judged(ran, compare.compare(ran, wanted, compare.written(ran, gateway))) for ran in runs]


def _run_all(
    console: Console, out: Path, own: Mapping[str, Flights], flights: Flights, gateway: GatewayProcess
) -> list[Ran]:
    """`own`: the input of those runs that do not take `flights`."""
    with Bars(console) as bars:
        runs = (Run(name, out / name, out / "logs", own.get(name, flights), gateway, bars.of(name)) for name in RUNS)
        return [run.go() for run in runs]


def conclude(console: Console, out: Path, judged: list[report.Judged], seconds: float) -> int:
    """Shows and keeps the results; 0 when they show what was promised."""
    results = {one.ran.name: one.result() for one in judged}
    report.show(console, judged)
    report.write_result(out / "result.json", results)
    report.draw(out / "result.png", judged)
    failed = report.failures(results) + report.strangers(judged)
    for failure in failed:
        console.print(f"[red]✗ {failure}[/red]", highlight=False)
    verdict = "[red]not shown[/red]" if failed else "[green]every fault was hit; every promise held[/green]"
    console.print(f"\n{shown(out / 'result.json')}, {shown(out / 'result.png')}", highlight=False)
    console.print(f"demo: {verdict} in {seconds:.0f} s", highlight=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
