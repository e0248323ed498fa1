"""`oncegate serve --standby`: who waits takes over from an owner that is killed, stopped or paused, and nobody else."""

import json
import signal
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker

pytestmark = pytest.mark.slow
_tokens = count(1)


def url(broker: Broker, prefix: str) -> str:
    options = "replication=1&min_insync=1&bare_key=yes&send_ms=3000&commit_ms=3000"
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?{options}"


def gateway(broker: Broker, folder: Path, prefix: str, *arguments: str) -> GatewayProcess:
    folder.mkdir()
    return GatewayProcess(folder, "--standby", *arguments, ledger=url(broker, prefix))


def post(process: GatewayProcess, path: str, **body: object) -> tuple[int, dict[str, Any]]:
    connection = HTTPConnection("127.0.0.1", process.port, timeout=60)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def ask(process: GatewayProcess, *ids: str) -> tuple[int, dict[str, Any]]:
    """Claims ids for a new attempt; status and answer."""
    body = {"token": f"{next(_tokens):032x}", "call": 0, "ids": ids, "lease_ms": 600_000}
    return post(process, "/v1/namespaces/default/ids:claim", **body)


def claim(process: GatewayProcess, *ids: str) -> tuple[str, list[str]]:
    """A claim's name, and what each id is answered."""
    status, answer = ask(process, *ids)
    assert status == 200, answer
    return answer["claim"], [one["verdict"] for one in answer["verdicts"]]


def written(process: GatewayProcess, *ids: str) -> None:
    name, verdicts = claim(process, *ids)
    assert set(verdicts) == {"GRANTED"}
    status, answer = post(process, f"/v1/namespaces/default/claims/{name}:complete", result="eA==")
    assert status == 200, answer


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
