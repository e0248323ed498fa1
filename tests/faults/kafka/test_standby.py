"""`oncegate serve --standby`: who waits takes over from an owner that is killed, stopped or paused, and nobody else."""

import signal
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.standing_by import ask, claim, written

pytestmark = pytest.mark.slow


def url(broker: Broker, prefix: str) -> str:
    options = "replication=1&min_insync=1&bare_key=yes&send_ms=3000&commit_ms=3000"
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?{options}"


def gateway(broker: Broker, folder: Path, prefix: str, *arguments: str) -> GatewayProcess:
    folder.mkdir()
    return GatewayProcess(folder, "--standby", *arguments, ledger=url(broker, prefix))


def test_who_stands_by_answers_nobody_and_takes_over_when_the_owner_is_killed(broker: Broker, tmp_path: Path) -> None:
    with gateway(broker, tmp_path / "owner", "killed") as owner:
        written(owner, "done")
        standby = gateway(broker, tmp_path / "standby", "killed").stand_by()
        try:
            status, problem = standby.ask("GET", "/healthz/ready")
            assert (status, "owns the ledgers" in problem["detail"]) == (503, True), problem
            assert standby.ask("GET", "/healthz/live")[0] == standby.ask("GET", "/healthz/startup")[0] == 200
            status, problem = ask(standby, "done", "new")
            assert (status, problem["code"], problem["action"]) == (503, "RECOVERING", "retry"), problem
            assert standby.ask("PUT", "/v1/namespaces/mail")[0] == 503
            assert owner.ask("PUT", "/v1/namespaces/mail")[0] == 201
            standby.wait_until("follows mail", lambda: standby.states() == {"default": "STANDBY", "mail": "STANDBY"})
            # The owner goes on, and what it says now is known there.
            assert claim(owner, "open", "done")[1] == ["GRANTED", "DUPLICATE"]
            assert owner.is_ready()
            owner.kill()
            standby.wait_until("takes over", standby.is_ready)
            assert claim(standby, "open", "done", "new")[1] == ["BUSY", "DUPLICATE", "GRANTED"]
            assert standby.states() == {"default": "SERVING", "mail": "SERVING"}
            assert "took_over" in standby.log
            assert standby.stop() == 0
        finally:
            standby.__exit__()


def test_of_two_that_stand_by_one_serves_and_an_orderly_stop_hands_over(broker: Broker, tmp_path: Path) -> None:
    # Nobody owns it, so one of them takes it over at once.
    three = [gateway(broker, tmp_path / name, "stopped") for name in ("one", "two", "three")]
    left = list(three)
    for one in three:
        one.spawn()
    try:
        for round_number in range(3):
            left[0].wait_until("is up", lambda: any(one.is_ready() for one in left))
            (owner,) = [one for one in left if one.is_ready()]
            written(owner, f"by {round_number}")
            before = [f"by {number}" for number in range(round_number + 1)]
            assert set(claim(owner, *before)[1]) == {"DUPLICATE"}
            left.remove(owner)
            for one in left:
                one.wait_until("stands by", one.stands_by)
            assert owner.stop() == 0
    finally:
        for one in three:
            one.__exit__()


def test_a_paused_owner_that_wakes_behind_its_successor_grants_nothing_and_stands_by(
    broker: Broker, tmp_path: Path
) -> None:
    with gateway(broker, tmp_path / "owner", "paused") as owner:
        written(owner, "done")
        standby = gateway(broker, tmp_path / "standby", "paused").stand_by()
        try:
            owner.signal(signal.SIGSTOP)
            standby.wait_until("takes over", standby.is_ready)
            written(standby, "by the successor")
            owner.signal(signal.SIGCONT)
            status, problem = ask(owner, "by the successor", "new")
            assert status in (409, 503), problem
            owner.wait_until("stands by", owner.stands_by)
            assert standby.is_ready()
            assert claim(standby, "done", "new")[1] == ["DUPLICATE", "GRANTED"]
            assert standby.stop() == 0
            owner.wait_until("takes over again", owner.is_ready)
            assert claim(owner, "by the successor", "new")[1] == ["DUPLICATE", "BUSY"]
        finally:
            standby.__exit__()
