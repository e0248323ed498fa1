"""A full disk of a broker, under the stages and everything else: the errors, and the data that is there afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from oncegate_spark.errors import Unavailable
from tests.matrix.world import wait_until
from tests.support.full_disks import fill, small_disk
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_users import client_of, url
from tests.support.posted import claim, produce
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow
DISK_MIB = 256
# Rows of a chunk: more than the space that a broker has preallocated in its files.
ROWS = 10_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "mounted", DISK_MIB) as disk:
        yield disk


@pytest.fixture
def broker(disk: Path) -> Iterator[Broker]:
    with one_broker(disk / "kafka") as broker:
        yield broker


def rows_of(first: int) -> Any:
    return pa.table({"value": [f"{number}".rjust(1_000) for number in range(first, first + ROWS)]})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_of_a_broker_leaves_no_half_stage_and_the_gateway_continues_when_there_is_room(
    broker: Broker, disk: Path, tmp_path: Path
) -> None:
    """Apache Kafka's brokers exit when their only disk is full. An operator makes room and restarts them."""
    topic = broker.topic()
    with (
        GatewayProcess(tmp_path, ledger=url(broker, "full")) as gateway,
        client_of(gateway) as client,
        Gateway(gateway.url, timeout_ms=20_000) as refused_one,
    ):
        assert produce(gateway, topic.topic, "a", "a")[0] == 200
        assert claim(gateway, "claimed", lease_ms=600_000)[1]["verdicts"] == [{"verdict": "GRANTED"}]
        batch = Batch(client, topic.topic)
        batch.stage(rows_of(0))
        ballast = fill(disk)
        with pytest.raises(Unavailable) as refused:
            batch.through(refused_one).stage(rows_of(ROWS))
        assert refused.value.code == "LEDGER_FULL"
        status, answer = claim(gateway, "refused")
        assert (status, answer["action"], answer["effect"]) == (507, "retry", "none"), answer
        assert gateway.ask("GET", "/v1/namespaces/default")[1]["failing"]["room"]
        ballast.unlink()
        broker.cluster.kill_node(1)
        broker.cluster.start_node(1)
        wait_until("claims go on", lambda: claim(gateway, "refused")[0] == 200)
        assert claim(gateway, "claimed")[1]["verdicts"][0]["verdict"] == "BUSY"
        assert broker.committed(topic) == [b"a"]
        batch.stage(rows_of(ROWS))
        assert batch.commit().rows == 2 * ROWS
        assert gateway.starts == 1
    found = broker.committed(topic)[1:]
    assert sorted(map(int, found)) == list(range(2 * ROWS))
