"""The short form of the demo on Kafka: a real broker, a real Spark, an owner and its standby."""

from pathlib import Path

import pytest

from demo import compare, data
from demo.compare import Compared
from demo.events import of_kind
from demo.faults import state
from demo.kafka import topics
from demo.kafka.needs import require_jars
from demo.kafka.stage import judged
from demo.kafka.supervisor import KafkaRun
from demo.owners import Owners
from demo.plan import PLANS
from demo.supervisor import Ran
from deploy.kafka.cluster import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
PLAN = PLANS["kafka-short"]


def went(name: str, folder: Path) -> tuple[Ran, Compared]:
    """Runs one way of the short form, with every fault that belongs to it."""
    logs = folder / "logs"
    logs.mkdir()
    flights, jars = data.cut(folder / "data", PLAN.size), require_jars()
    with Cluster(folder / "broker") as cluster, Owners(folder / "gateways", logs, cluster.ledger("demo")) as owners:
        topics.make(cluster.bootstrap, [name])
        run = KafkaRun(PLAN, name, folder / name, logs, flights, owners, lambda *_: None, cluster, jars)
        ran = run.go()
        found = judged(PLAN, ran, compare.expected(PLAN.size), cluster.bootstrap).compared
    assert {fault.name for fault in PLAN.faults_of(name) if state(fault, ran.events) != "hit"} == set()
    return ran, found


def test_a_broker_and_an_owner_die_and_every_flight_is_in_the_topic_once(tmp_path: Path) -> None:
    ran, found = went("staged", tmp_path)
    assert [event["standby"] for event in of_kind(ran.events, "gateway_serves_again")] == [True]
    assert (found.duplicated, found.lost, found.strange) == (0, 0, 0)
    assert found.rows_out == PLAN.size.rows


def test_sparks_own_sink_loses_nothing_and_writes_again_what_a_failed_task_and_a_killed_driver_wrote(
    tmp_path: Path,
) -> None:
    _, found = went("kafka", tmp_path)
    again = {fault.name for fault in PLAN.faults if found.by_batch.get(fault.batch)}
    assert again >= {"task_error", "driver_kill"}
    assert (found.lost, found.strange) == (0, 0)
