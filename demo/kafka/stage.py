"""Runs a Kafka broker, and a gateway with its ledger on it, for all ways of the demo."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from demo import compare, report
from demo.data import Flights
from demo.kafka import topics
from demo.kafka.needs import require_jars, require_java
from demo.kafka.supervisor import KafkaRun
from demo.owners import Owners
from demo.plan import Plan, Way
from demo.supervisor import Ran, Tell
from deploy.kafka.cluster import Cluster

GoOneWay = Callable[[Way, Flights, Tell], Ran]
GoAllWays = Callable[[Console, Path, Plan, GoOneWay], list[Ran]]


def demonstrate(console: Console, out: Path, plan: Plan, go_all_ways: GoAllWays) -> list[report.Judged]:
    """Runs every way of the plan, in an empty folder. Raises RuntimeError if Java or a jar is missing."""
    require_java()
    console.print("Apache Kafka from Maven Central's jars, fetched once", highlight=False)
    jars = require_jars()
    logs = out / "logs"
    logs.mkdir()
    with Cluster(out / "broker") as cluster, Owners(out / "gateways", logs, cluster.ledger("demo")) as owners:
        topics.make(cluster.bootstrap, [way.name for way in plan.ways])

        def go(way: Way, flights: Flights, tell: Tell) -> Ran:
            return KafkaRun(plan, way.name, out / way.name, logs, flights, owners, tell, cluster, jars).go()

        ran = go_all_ways(console, out, plan, go)
        wanted = compare.expected(plan.size)
        return [judged(plan, run, wanted, cluster.bootstrap) for run in ran]


def judged(plan: Plan, ran: Ran, wanted: compare.Expected, bootstrap: str) -> report.Judged:
    """Judges the output of a way, read by a client other than the product's."""
    return report.Judged(plan, ran, compare.compare(ran, wanted, topics.written(bootstrap, ran.name)))
