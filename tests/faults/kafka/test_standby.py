"""`oncegate serve --standby`: a standby takes over from an owner that is killed, stopped or paused, and only then."""

from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.standby_processes import take_over_from_a_killed_owner, wake_after_a_successor
from tests.support.standing_by import claim, written

pytestmark = pytest.mark.slow


def url(broker: Broker, prefix: str) -> str:
    options = "replication=1&min_insync=1&bare_key=yes&send_ms=3000&commit_ms=3000"
    return f"kafka://{broker.cluster.bootstrap}/{prefix}?{options}"


def gateway(broker: Broker, folder: Path, prefix: str, *arguments: str) -> GatewayProcess:
    folder.mkdir()
    return GatewayProcess(folder, "--standby", *arguments, ledger=url(broker, prefix))


def test_a_standby_answers_no_request_and_takes_over_when_the_owner_is_killed(broker: Broker, tmp_path: Path) -> None:
    take_over_from_a_killed_owner(lambda name: gateway(broker, tmp_path / name, "killed"))


def test_one_of_two_standbys_serves_and_an_orderly_stop_hands_over(broker: Broker, tmp_path: Path) -> None:
    # There is no owner, so one of them takes over at once.
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


def test_a_paused_owner_that_wakes_after_its_successor_grants_nothing_and_becomes_a_standby(
    broker: Broker, tmp_path: Path
) -> None:
    wake_after_a_successor(lambda name: gateway(broker, tmp_path / name, "paused"))
