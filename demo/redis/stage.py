"""Runs a Redis server, and a gateway with its ledger on it, for all ways of the demo."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from demo import compare, report
from demo.data import Flights
from demo.owners import Owners
from demo.plan import Plan, Way
from demo.redis.server import RedisServer
from demo.redis.supervisor import RedisRun
from demo.supervisor import Ran, Tell

GoOneWay = Callable[[Way, Flights, Tell], Ran]
GoAllWays = Callable[[Console, Path, Plan, GoOneWay], list[Ran]]
# Silence of the owner after which a standby takes over.
TAKEOVER_MS = 5_000


def demonstrate(console: Console, out: Path, plan: Plan, go_all_ways: GoAllWays) -> list[report.Judged]:
    """Runs every way of the plan, in an empty folder. Raises RuntimeError if there is no redis-server."""
    logs = out / "logs"
    logs.mkdir()
    with (
        RedisServer(out / "redis", logs / "redis.log") as server,
        Owners(out / "gateways", logs, server.ledger("demo", TAKEOVER_MS), witnessed=True) as owners,
    ):

        def go(way: Way, flights: Flights, tell: Tell) -> Ran:
            return RedisRun(plan, way.name, out / way.name, logs, flights, owners, tell, server).go()

        ran = go_all_ways(console, out, plan, go)
        wanted = compare.expected(plan.size)
        written = [compare.compare(run, wanted, compare.written(run, owners.owner)) for run in ran]
        return [report.Judged(plan, run, compared) for run, compared in zip(ran, written, strict=True)]
