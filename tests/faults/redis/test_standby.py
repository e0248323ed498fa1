"""`oncegate serve --standby` on Redis: a standby takes over from an owner that is killed or paused, and only then."""

from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.redis_server import RedisServer
from tests.support.standby_processes import take_over_from_a_killed_owner, wake_after_a_successor

pytestmark = pytest.mark.slow
TAKEOVER_S = 4
# The longest takeover after the silence that it waits for.
BEYOND_S = 2


def gateway(server: RedisServer, folder: Path, prefix: str) -> GatewayProcess:
    folder.mkdir()
    url = f"redis://{server.address}/{prefix}?bare_key=yes&takeover_ms={TAKEOVER_S * 1_000}"
    return GatewayProcess(folder, "--standby", "--witness", str(folder / "witness"), ledger=url)


def test_a_standby_answers_no_request_and_takes_over_soon_when_the_owner_is_killed(
    server: RedisServer, tmp_path: Path
) -> None:
    take_over_from_a_killed_owner(lambda name: gateway(server, tmp_path / name, "killed"), TAKEOVER_S + BEYOND_S)


def test_a_paused_owner_that_wakes_after_its_successor_grants_nothing_and_becomes_a_standby(
    server: RedisServer, tmp_path: Path
) -> None:
    wake_after_a_successor(lambda name: gateway(server, tmp_path / name, "paused"))
