"""Clients that write into Kafka directly, at brokers with ACLs: the plan's rights suffice, and each is needed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AclOperation
from typer.testing import CliRunner

from deploy.kafka.access import CLIENT, SCRAM, Access
from oncegate.cli import app
from oncegate.ledgers.kafka.partition import Partition
from oncegate_spark import Gateway
from oncegate_spark.direct import DirectWriter, DirectWritten
from oncegate_spark.errors import Outcome, Refused
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker, one_broker
from tests.support.kafka_lanes import rows
from tests.support.kafka_rights import DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, TOPIC, TRANSACTIONAL_ID, WRITE, Rights

pytestmark = pytest.mark.slow
PREFIX, SPARK, PASSWORD = "rights", "spark", "spark's own"
KINDS = {"transactional-id": TRANSACTIONAL_ID, "topic": TOPIC}


@dataclass
class Scene:
    """A gateway and a writer of its lanes: users of one broker, each with its own rights."""

    broker: Broker
    rights: Rights
    gateway: Gateway
    topic: str

    def write(self, *sequences: int, timeout_ms: int = 9_000) -> DirectWritten:
        config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": SCRAM}
        config |= {"sasl.username": SPARK, "sasl.password": PASSWORD}
        writer = DirectWriter(
            self.gateway, self.topic, "p", config=config, timeout_ms=timeout_ms, transaction_ms=10_000
        )
        return writer.write(rows(*sequences))

    def grant(self, kind: str, name: str, is_whole: bool) -> None:
        allow = self.rights.allow if is_whole else self.rights.allow_below
        allow(KINDS[kind], name, DESCRIBE, WRITE, user=SPARK)

    def take(self, kind: str, name: str, is_whole: bool) -> None:
        take = self.rights.take if is_whole else self.rights.take_below
        take(KINDS[kind], name, SPARK)

    def values(self) -> list[bytes]:
        return sorted(self.broker.committed(Partition(self.topic, 0)))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka"), Access(sasl=True, acls=True)) as broker:
        yield broker


@pytest.fixture(scope="module")
def served(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    rights = Rights(broker)
    rights.allow_below(TOPIC, PREFIX, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS, DELETE, AclOperation.CREATE)
    rights.allow_below(TRANSACTIONAL_ID, PREFIX, WRITE, DESCRIBE)
    query = broker.cluster.access.query(broker.cluster.files)
    url = f"kafka://{broker.cluster.bootstrap}/{PREFIX}?replication=1&min_insync=1&bare_key=yes&{query}"
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url) as process:
        yield process.url


@pytest.fixture
def scene(broker: Broker, served: str) -> Iterator[Scene]:
    rights = Rights(broker)
    rights.let_in(SPARK, PASSWORD)
    with Gateway(served, timeout_ms=60_000) as gateway:
        yield Scene(broker, rights, gateway, broker.topic().topic)


def planned(scene: Scene) -> list[tuple[str, str, bool]]:
    """Returns the rights that `oncegate kafka plan --writer` lists for a writer."""
    options = ["--topic", scene.topic, "--writer", f"User:{SPARK}", "--format", "json", "--principal", f"User:{CLIENT}"]
    url = f"kafka://{scene.broker.cluster.bootstrap}/{PREFIX}?replication=1&min_insync=1&bare_key=yes"
    shown = CliRunner().invoke(app, ["kafka", "plan", "--ledger", url, *options])
    answer = json.loads(shown.stdout)["writers_rights"]
    assert all(one["operations"] == ["Describe", "Write"] for one in answer)
    return [(one["resource"], one["name"], one["alone"]) for one in answer]


@pytest.mark.parametrize("missing", [0, 1, 2], ids=["transactional-id", "topic-of-lanes", "topic"])
def test_a_writer_needs_each_right_of_the_plan_and_no_other(scene: Scene, missing: int) -> None:
    plan = planned(scene)
    for number, right in enumerate(plan):
        (scene.take if number == missing else scene.grant)(*right)
    kind, name, _ = plan[missing]
    with pytest.raises(Refused) as refused:
        scene.write(1, 2)
    message = str(refused.value)
    assert f"{SPARK} lacks Describe or Write on {kind.replace('-', ' ')} " in message
    assert name in message
    assert "oncegate kafka plan --writer" in message
    assert refused.value.outcome is Outcome.NOT_WRITTEN
    assert scene.values() == []
    scene.grant(*plan[missing])
    assert scene.write(1, 2) == DirectWritten(2, 0)
    assert scene.values() == [b"1", b"2"]


def test_a_wrong_password_is_reported_and_not_retried(scene: Scene) -> None:
    scene.rights.let_in(SPARK, "another")
    with pytest.raises(Refused, match=f"brokers rejected the credentials of {SPARK}"):
        scene.write(1, timeout_ms=2_000)
    scene.rights.let_in(SPARK, PASSWORD)
    for right in planned(scene):
        scene.grant(*right)
    assert scene.write(1) == DirectWritten(1, 0)
