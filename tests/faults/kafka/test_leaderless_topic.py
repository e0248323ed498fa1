"""A user's topic whose only replica is on a broker that is killed during its transaction: only this topic waits."""

import asyncio
import http.client
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka.client import AIOKafkaClient, CoordinationType
from confluent_kafka.admin import NewTopic

from deploy.kafka.cluster import Cluster
from oncegate.ledgers.kafka.namespaces import NamespaceTopic
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.topics import admin_of
from oncegate.ledgers.kafka.watch import Deadlines
from tests.matrix.world import StruckGateway, wait_until
from tests.support.kafka_broker import WAIT_S, Broker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Cluster(tmp_path_factory.mktemp("brokers"), brokers=3) as cluster:
        yield Broker(cluster, behind=0, proxy_port=0)


class Served:
    """A gateway with failpoints over its own prefix, with single attempts of requests."""

    def __init__(self, brokers: Broker, folder: Path, prefix: str) -> None:
        self.prefix = prefix
        options = "replication=3&min_insync=2&bare_key=yes&send_ms=4000&commit_ms=10000"
        ledger = f"kafka://{brokers.cluster.bootstrap}/{self.prefix}?{options}"
        self.gateway = StruckGateway(folder / "gateway", ledger, collecting=False)

    def post(self, path: str, **body: Any) -> tuple[int, dict[str, Any]]:

        with closing(http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=WAIT_S)) as connection:
            try:
                request_body = json.dumps({"token": uuid4().hex, "call": 0, **body})
                headers = {"Content-Type": "application/json"}
                connection.request("POST", f"/v1/namespaces/default/{path}", request_body, headers)
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except (OSError, http.client.HTTPException):
                return 0, {}

    def produce(self, topic: str, id_: str) -> tuple[int, dict[str, Any]]:
        return self.post(f"topics/{topic}/records:produce", id_col=["key"], records=[{"key": id_, "value": id_}])

    def until_written(self, topic: str, *ids: str) -> None:
        for id_ in ids:
            wait_until(f"{id_} is in {topic}", lambda id_=id_: self.produce(topic, id_)[0] == 200)  # type: ignore[misc]

    def until_claimed(self) -> None:
        wait_until("an id is claimed", lambda: self.post("ids:claim", ids=[uuid4().hex])[0] == 200)

    def until_refused(self, topic: str, words: str) -> None:
        """Produces until a refusal contains `words`; each answer before must be a retryable refusal that wrote
        nothing."""

        def is_said() -> bool:
            status, answer = self.produce(topic, "refused")
            assert (status, answer["code"], answer["action"], answer["effect"]) == (
                507,
                "LEDGER_FULL",
                "retry",
                "none",
            ), answer
            return words in answer["detail"]

        wait_until(f"it says: {words}", is_said)


async def coordinator(brokers: Broker, prefix: str) -> int:
    """Returns the broker that coordinates the transactions of a prefix's one ledger."""
    settings = brokers.settings()
    listed, client = NamespaceTopic(settings, prefix, Deadlines()), AIOKafkaClient(**settings)
    try:
        ((name, generation),) = (await listed.refresh()).generations.items()
        await client.bootstrap()
        return int(await client.coordinator_lookup(CoordinationType.TRANSACTION, f"{name}/{generation.highest}"))
    finally:
        await listed.close()
        await client.close()


def topic_on_one(brokers: Broker, name: str, node: int) -> str:
    brokers.admin.create_topics([NewTopic(name, 1, replica_assignment=[[node]])])[name].result(WAIT_S)
    wait_until("the topic is known", lambda: name in brokers.admin.list_topics(timeout=WAIT_S).topics)
    return name


def is_seen(brokers: Broker, topic: str) -> bool:
    return sorted(brokers.committed(Partition(topic, 0))) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("point", "status"),
    [
        pytest.param("begun", 507, id="its own abort, before PRODUCE"),
        pytest.param("all sent", 200, id="its commit"),
    ],
)
def test_a_topic_without_a_leader_waits_alone_and_heals_by_itself(
    brokers: Broker, tmp_path: Path, point: str, status: int
) -> None:
    served = Served(brokers, tmp_path, f"leaderless-{point.replace(' ', '-')}")
    gateway = served.gateway
    with gateway, ThreadPoolExecutor(1) as aside:
        # If a transaction's coordinator dies too, its commit may be late and then aborted, which is not healed.
        node = asyncio.run(coordinator(brokers, served.prefix)) % len(brokers.cluster.nodes) + 1
        other = brokers.topic(name=f"{served.prefix}-other").topic
        lone = topic_on_one(brokers, f"{served.prefix}-lone", node)
        served.until_written(lone, "a")
        served.until_written(other, "a")
        gateway.arm(point, signal.SIGSTOP)
        pending = aside.submit(served.produce, lone, "b")
        wait_until("the step is reached", lambda: gateway.is_struck)
        brokers.cluster.kill_node(node)
        try:
            gateway.go_on()
            assert pending.result()[0] == status
            served.until_claimed()
            served.until_written(other, "b")
            served.until_refused(lone, "no leader")
            served.until_claimed()
            served.until_written(other, "c")
        finally:
            brokers.cluster.start_node(node)
        served.until_written(lone, "a", "b", "c")
        assert gateway.starts == 1
        for topic in (lone, other):
            # A marker may follow the answer: the coordinator writes it when the leader is back, or the owner does.
            wait_until(f"readers see {topic}", lambda topic=topic: is_seen(brokers, topic))  # type: ignore[misc]


def test_readers_go_on_behind_an_abort_that_met_no_leader(brokers: Broker, tmp_path: Path) -> None:
    """The owner is killed before EndTxn, and its successor aborts while the topic has no leader.

    No frame has named the topic; only its coordinator knows the partitions of the transaction.
    """
    served = Served(brokers, tmp_path, "aborted")
    gateway = served.gateway
    with gateway, ThreadPoolExecutor(1) as aside:
        node = asyncio.run(coordinator(brokers, served.prefix)) % len(brokers.cluster.nodes) + 1
        lone = topic_on_one(brokers, f"{served.prefix}-lone", node)
        gateway.arm("all sent", signal.SIGKILL)
        pending = aside.submit(served.produce, lone, "a")
        gateway.await_end()
        brokers.cluster.kill_node(node)
        try:
            assert pending.result()[0] == 0, "nobody was told"
            gateway.settle()
            served.until_claimed()
        finally:
            brokers.cluster.start_node(node)
        served.until_written(lone, "a", "b", "c")
        wait_until(f"readers see {lone}", lambda: is_seen(brokers, lone))


async def test_any_broker_that_is_there_is_asked_about_topics(brokers: Broker) -> None:
    node = brokers.cluster.nodes[-1]
    async with admin_of(brokers.settings()) as admin:
        brokers.cluster.kill_node(node)
        try:
            for _ in range(20):
                await admin.list_topics()
        finally:
            brokers.cluster.start_node(node)
