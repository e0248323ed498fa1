"""Runs the same job with each way to write and judges the results; status 0 only if every promise was shown."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from demo import compare, report
from demo.bars import Bars
from demo.data import Flights, cut
from demo.plan import PLANS, Plan, Way
from demo.processes import ROOT, GatewayProcess, alone, end_as_ctrl_c, shown, temporary_files
from demo.supervisor import Ran, Run, RunFailed, Tell

INTERRUPTED = 130
_LEDGERS = {
    "kafka": "into topics of a real Kafka broker, beside Spark's own sink",
    "redis": "over a ledger on a real Redis server, which is killed too",
}
GoOneWay = Callable[[Way, Flights, Tell], Ran]


def main() -> int:
    """Runs the demo; returns the exit status."""
    arguments = _arguments()
    out: Path = arguments.out.resolve()
    end_as_ctrl_c()
    console = Console(width=None if sys.stdout.isatty() else 160)
    plan = PLANS[arguments.ledger + ("-direct" if arguments.direct else "") + ("-short" if arguments.short else "")]
    began_s = time.monotonic()
    try:
        with alone(out), temporary_files(out / "tmp"):
            judged = DEMONSTRATE[arguments.ledger](console, out, plan)
            return conclude(console, out, judged, time.monotonic() - began_s)
    except KeyboardInterrupt:
        console.print("[yellow]stopped; everything that was started is stopped too[/yellow]")
        return INTERRUPTED
    except (RunFailed, RuntimeError, OSError) as error:
        console.print(f"[red]the demo could not be finished:[/red] {error}", highlight=False, soft_wrap=True)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.set_defaults(ledger="embedded")
    ledger = parser.add_mutually_exclusive_group()
    for name, help_ in _LEDGERS.items():
        ledger.add_argument(f"--{name}", dest="ledger", action="store_const", const=name, help=help_)
    parser.add_argument("--short", action="store_true", help="fewer flights, and four of the faults")
    parser.add_argument("--direct", action="store_true", help="with --kafka: one way more, past the gateway")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="emptied first  [default: out/demo]")
    arguments = parser.parse_args()
    if arguments.direct and arguments.ledger != "kafka":
        parser.error("--direct goes with --kafka: executors write into its topics")
    return arguments


def _on_redis(console: Console, out: Path, plan: Plan) -> list[report.Judged]:
    """Runs the demo on Redis, which needs a redis-server but no Redis client."""
    from demo.redis.stage import demonstrate

    return demonstrate(console, out, plan, go_all_ways)


def _on_kafka(console: Console, out: Path, plan: Plan) -> list[report.Judged]:
    """Runs the demo on Kafka, the only form that needs Kafka's clients."""
    from demo.kafka.stage import demonstrate

    return demonstrate(console, out, plan, go_all_ways)


def demonstrate(console: Console, out: Path, plan: Plan) -> list[report.Judged]:
    """Runs every way, in an empty folder, on one gateway."""
    logs = out / "logs"
    logs.mkdir()
    with GatewayProcess(out / "gateway", logs / "gateway.log") as gateway:

        def go(way: Way, flights: Flights, tell: Tell) -> Ran:
            return Run(plan, way.name, out / way.name, logs, flights, gateway, tell).go()

        ran = go_all_ways(console, out, plan, go)
        wanted = compare.expected(plan.size)
        return [report.Judged(plan, run, compare.compare(run, wanted, compare.written(run, gateway))) for run in ran]


def go_all_ways(console: Console, out: Path, plan: Plan, go: GoOneWay) -> list[Ran]:
    """Runs the ways one after another, each with a progress bar."""
    size = plan.size
    flights, salted = cut(out / "data", size), cut(out / "salted", size, salted=True)
    what = f"{size.parts} files, {size.batches} micro-batches, {len(plan.faults)} faults"
    console.print(f"{what}; logs in {shown(out / 'logs')}", highlight=False)
    with Bars(console, plan) as bars:
        return [go(way, salted if way.salted else flights, bars.of(way.name)) for way in plan.ways]


def conclude(console: Console, out: Path, judged: list[report.Judged], seconds: float) -> int:
    """Prints and saves the results; returns 0 if they show every promise."""
    results = {verdict.ran.name: verdict.result() for verdict in judged}
    report.show(console, judged)
    report.write_result(out / "result.json", results)
    report.draw(out / "result.png", judged)
    failed = report.failures(judged[0].plan, results) + report.strangers(judged)
    for failure in failed:
        console.print(f"[red]✗ {failure}[/red]", highlight=False)
    verdict = "[red]not shown[/red]" if failed else "[green]every fault was hit; every promise held[/green]"
    console.print(f"\n{shown(out / 'result.json')}, {shown(out / 'result.png')}", highlight=False)
    console.print(f"demo: {verdict} in {seconds:.0f} s", highlight=False)
    return 1 if failed else 0


DEMONSTRATE = {"embedded": demonstrate, "kafka": _on_kafka, "redis": _on_redis}

if __name__ == "__main__":
    sys.exit(main())
