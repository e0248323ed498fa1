"""The short form of the demo on Redis: a real server, a real Spark, an owner and its standby."""

from pathlib import Path

import pytest

from demo import compare, data
from demo.events import of_kind
from demo.faults import state
from demo.owners import Owners
from demo.plan import PLANS
from demo.redis.server import RedisServer
from demo.redis.stage import TAKEOVER_MS
from demo.redis.supervisor import RedisRun

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(900)]
PLAN = PLANS["redis-short"]


def test_a_server_and_an_owner_die_and_every_flight_is_there_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    flights = data.cut(tmp_path / "data", PLAN.size)
    with (
        RedisServer(tmp_path / "redis", logs / "redis.log") as server,
        Owners(tmp_path / "gateways", logs, server.ledger("demo", TAKEOVER_MS), witnessed=True) as owners,
    ):
        run = RedisRun(PLAN, "staged", tmp_path / "staged", logs, flights, owners, lambda *_: None, server)
        ran = run.go()
        found = compare.compare(ran, compare.expected(PLAN.size), compare.written(ran, owners.owner))
    assert {fault.name for fault in PLAN.faults_of("staged") if state(fault, ran.events) != "hit"} == set()
    assert [event["standby"] for event in of_kind(ran.events, "gateway_serves_again")] == [True]
    assert (found.duplicated, found.lost, found.strange) == (0, 0, 0)
    assert found.rows_out == PLAN.size.rows
