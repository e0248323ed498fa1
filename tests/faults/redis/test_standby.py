"""`oncegate serve --standby` on Redis: who waits takes over from an owner that is killed or paused, and nobody else."""

import signal
import time
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.redis_server import RedisServer
from tests.support.standing_by import ask, claim, written

pytestmark = pytest.mark.slow
TAKEOVER_S = 4
# What a take-over may take beyond the silence that it waits for.
BEYOND_S = 2


def gateway(server: RedisServer, folder: Path, prefix: str) -> GatewayProcess:
    folder.mkdir()
    url = f"redis://{server.address}/{prefix}?bare_key=yes&takeover_ms={TAKEOVER_S * 1_000}"
    return GatewayProcess(folder, "--standby", "--witness", str(folder / "witness"), ledger=url)


def test_who_stands_by_answers_nobody_and_takes_over_soon_when_the_owner_is_killed(
    server: RedisServer, tmp_path: Path
) -> None:
    with gateway(server, tmp_path / "owner", "killed") as owner:
        written(owner, "done")
        standby = gateway(server, tmp_path / "standby", "killed").stand_by()
        try:
            status, problem = standby.ask("GET", "/healthz/ready")
            assert (status, "owns the ledgers" in problem["detail"]) == (503, True), problem
            status, problem = ask(standby, "done", "new")
            assert (status, problem["code"], problem["action"]) == (503, "RECOVERING", "retry"), problem
            assert standby.ask("PUT", "/v1/namespaces/mail")[0] == 503
            assert owner.ask("PUT", "/v1/namespaces/mail")[0] == 201
            standby.wait_until("follows mail", lambda: standby.states() == {"default": "STANDBY", "mail": "STANDBY"})
            # The owner goes on, and what it says now is known there.
            assert claim(owner, "open", "done")[1] == ["GRANTED", "DUPLICATE"]
            assert owner.is_ready()
            owner.kill()
            killed_s = time.monotonic()
            standby.wait_until("takes over", standby.is_ready)
            assert time.monotonic() < killed_s + TAKEOVER_S + BEYOND_S
            assert claim(standby, "open", "done", "new")[1] == ["BUSY", "DUPLICATE", "GRANTED"]
            assert standby.states() == {"default": "SERVING", "mail": "SERVING"}
            assert "took_over" in standby.log
            assert standby.stop() == 0
        finally:
            standby.__exit__()


def test_a_paused_owner_that_wakes_behind_its_successor_grants_nothing_and_stands_by(
    server: RedisServer, tmp_path: Path
) -> None:
    with gateway(server, tmp_path / "owner", "paused") as owner:
        written(owner, "done")
        standby = gateway(server, tmp_path / "standby", "paused").stand_by()
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
            # An orderly stop hands over at once.
            assert standby.stop() == 0
            owner.wait_until("takes over again", owner.is_ready)
            assert claim(owner, "by the successor", "new")[1] == ["DUPLICATE", "BUSY"]
        finally:
            standby.__exit__()
