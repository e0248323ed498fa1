"""Only the disk of the stages is full: claims continue, and so do stages once there is room."""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from deploy.kafka.cluster import Cluster
from deploy.kafka.probe import asked, connected
from oncegate_spark import Gateway
from oncegate_spark.errors import Unavailable
from tests.matrix.world import wait_until
from tests.support.full_disks import fill, small_disk
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_users import client_of, url
from tests.support.posted import claim
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow
DISK_MIB = 48
PREFIX = "stages"
STAGES = f"{PREFIX}.default.stages"
OTHERS = [f"{PREFIX}.{name}" for name in ("namespaces", "default.ledger", "default.states", "default.outputs")]
# Space left on the full disk: enough for some batches of a chunk, but not for all.
LEFT_BYTES = 2_500_000
CHUNK_ROWS = 10_000
_ALTER_REPLICA_LOG_DIRS = 34, 1


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "mounted", DISK_MIB) as disk:
        yield disk


@pytest.fixture
def broker(disk: Path, tmp_path: Path) -> Iterator[Broker]:
    """A broker with two folders: the stages are on the small disk, everything else is elsewhere."""
    folder = tmp_path / "kafka"
    own = folder / "broker-1"
    with Cluster(folder, more={"log.dirs": f"{own},{disk / 'logs'}"}) as cluster:
        broker = Broker(cluster, behind=0, proxy_port=0)
        topics = [(topic, 1) for topic in OTHERS] + [("topic", 1), ("__transaction_state", 4)]
        for topic, partitions in topics:
            for number in range(partitions):
                lay(broker, own, topic, number)
        lay(broker, disk / "logs", STAGES, 0)
        yield broker


def text(value: object) -> bytes:
    encoded = str(value).encode()
    return struct.pack(">h", len(encoded)) + encoded


def lay(broker: Broker, folder: Path, topic: str, number: int) -> None:
    """Chooses the folder of a partition that does not exist yet."""
    with connected(broker.cluster.ports[0].clients) as stream:
        one = struct.pack(">i", 1)
        asked(stream, _ALTER_REPLICA_LOG_DIRS, one + text(folder) + one + text(topic) + one + struct.pack(">i", number))


def rows(first: int, count: int) -> pa.Table:
    return pa.table({"value": [f"{number}".rjust(1_000) for number in range(first, first + count)]})


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_claims_go_on_while_only_the_stages_are_full_and_nothing_of_a_half_is_left(
    broker: Broker, disk: Path, tmp_path: Path
) -> None:
    """Apache Kafka's brokers give up the folder of a full disk until an operator makes room and restarts them."""
    topic = broker.topic(name="topic")
    with (
        GatewayProcess(tmp_path, ledger=f"{url(broker, PREFIX)}&transaction_ms=12000") as gateway,
        client_of(gateway) as client,
        Gateway(gateway.url, timeout_ms=15_000) as refused_one,
    ):
        assert claim(gateway, "claimed", lease_ms=600_000)[0] == 200
        batch = Batch(client, topic.topic)
        batch.stage(rows(0, 100))
        ballast = fill(disk)
        os.truncate(ballast, ballast.stat().st_size - LEFT_BYTES)
        with pytest.raises(Unavailable):
            batch.through(refused_one).stage(rows(100, CHUNK_ROWS))
        wait_until("claims go on", lambda: claim(gateway, "meanwhile")[0] == 200)
        assert claim(gateway, "claimed")[1]["verdicts"][0]["verdict"] == "BUSY"
        ballast.unlink()
        broker.cluster.kill_node(1)
        broker.cluster.start_node(1)
        wait_until("claims go on", lambda: claim(gateway, "afterwards")[0] == 200)
        batch.stage(rows(100, CHUNK_ROWS))
        assert batch.commit().rows == 100 + CHUNK_ROWS
        assert gateway.starts == 1
    assert sorted(map(int, broker.committed(topic))) == list(range(100 + CHUNK_ROWS))
