"""A running gateway whose topics accept smaller batches than before: its errors, and the other requests' answers."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from oncegate_spark import Gateway
from tests.matrix.world import wait_until
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import Broker
from tests.support.kafka_topics import configure
from tests.support.kafka_users import client_of, url
from tests.support.posted import claim, post, produce, waiting
from tests.support.staged_batches import Batch

pytestmark = pytest.mark.slow
LARGE = "x" * 10_000
LOWERED = 2_000
Answer = tuple[int, dict[str, Any]]
# Sends one request, built while all topics accept its content.
Request = Callable[[], Answer]


@pytest.fixture(scope="module")
def gateway(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("gateway"), ledger=url(broker, "large")) as gateway:
        yield gateway


def takes(broker: Broker, topic: str, size_bytes: int) -> None:
    """Sets the largest batch that the topic accepts."""
    configure(broker, topic, "max.message.bytes", str(size_bytes))


def a_produce(gateway: GatewayProcess, _: Gateway, topic: str) -> Request:
    assert produce(gateway, topic, "small", "y")[0] == 200
    return lambda: produce(gateway, topic, "large", LARGE)


def plain(gateway: GatewayProcess, topic: str, value: str) -> Answer:
    """Writes a row without an id: other writes first ask a broker for the topic's id, which a paused broker does not
    answer."""
    path = f"topics/{topic}/records:produce"
    return post(gateway, path, token=uuid4().hex, call=0, records=[{"value": value}])


def rows_without_ids(gateway: GatewayProcess, _: Gateway, topic: str) -> Request:
    assert plain(gateway, topic, "y")[0] == 200
    return lambda: plain(gateway, topic, LARGE)


def a_commit(gateway: GatewayProcess, client: Gateway, topic: str) -> Request:
    batch = Batch(client, topic)
    batch.stage(pa.table({"value": [LARGE]}))
    order = {"run": "r" * 8, "nonce": batch.nonce, "winners": [batch.winner], "digest": None, "previous_digest": None}
    return lambda: post(gateway, "batches:commit", name=batch.name.members(), **order)


def in_one_group(broker: Broker, gateway: GatewayProcess, *requests: Request) -> list[Answer]:
    """Sends requests that wait for one append, which a paused broker does not answer. Returns their answers in
    order."""
    with ThreadPoolExecutor(len(requests) + 1) as threads:
        broker.cluster.pause_node(1)
        try:
            first = threads.submit(claim, gateway, f"before {requests}")
            wait_until("an append is under way", lambda: waiting(gateway) == (0, 1))
            asked = []
            for request in requests:
                asked.append(threads.submit(request))
                wait_until("it waits in the queue", lambda: waiting(gateway) == (len(asked), len(asked) + 1))
        finally:
            broker.cluster.resume_node(1)
        assert first.result()[0] == 200
        return [one.result() for one in asked]


def test_a_request_too_large_for_its_topic_gets_413_and_all_others_in_its_group_200(
    broker: Broker, gateway: GatewayProcess
) -> None:
    small, there = broker.topic(), broker.topic()
    name = "rows without ids"
    with client_of(gateway) as client:
        large = rows_without_ids(gateway, client, small.topic)
        before = broker.committed(small)
        assert produce(gateway, there.topic, "first", "a")[0] == 200
        takes(broker, small.topic, LOWERED)
        (first, told, written, last) = in_one_group(
            broker,
            gateway,
            lambda: claim(gateway, f"{name} 1"),
            large,
            lambda: plain(gateway, there.topic, "b"),
            lambda: claim(gateway, f"{name} 2"),
        )
    assert (told[0], told[1]["code"], told[1]["action"], told[1]["effect"]) == (413, "TOO_LARGE", "fix", "none"), told
    for word in (f"topic {small.topic}", "max.message.bytes", "raise"):
        assert word in told[1]["detail"]
    assert (first[0], written[0], last[0]) == (200, 200, 200), (first, written, last)
    for answer in (first, last):
        assert answer[1]["verdicts"] == [{"verdict": "GRANTED"}]
    assert (broker.committed(small), broker.committed(there)) == (before, [b"a", b"b"])


@pytest.mark.parametrize("kind", [a_produce, a_commit])
def test_refused_rows_are_written_once_when_their_topic_accepts_them(
    broker: Broker, gateway: GatewayProcess, kind: Callable[..., Request]
) -> None:
    topic = broker.topic()
    with client_of(gateway) as client:
        large = kind(gateway, client, topic.topic)
        before = broker.committed(topic)
        takes(broker, topic.topic, LOWERED)
        assert large()[0] == 413
        assert broker.committed(topic) == before
        takes(broker, topic.topic, 1_048_588)
        wait_until("it is written", lambda: large()[0] == 200)
        assert large()[0] == 200
    assert broker.committed(topic) == [*before, LARGE.encode()]


def test_a_topic_of_the_gateway_with_a_lower_limit_is_named_and_everything_continues_when_it_is_raised(
    broker: Broker, gateway: GatewayProcess
) -> None:
    """The ledger's frames and the stages in turn, without a restart."""
    there = broker.topic()
    stages, frames = "large.default.stages", "large.default.ledger"
    with client_of(gateway) as client:
        assert produce(gateway, there.topic, "a", "a")[0] == 200
        takes(broker, stages, LOWERED)
        batch = Batch(client, there.topic)
        with pytest.raises(Exception, match=rf"raise max\.message\.bytes of topic {stages}"):
            batch.stage(pa.table({"value": [LARGE]}))
        assert claim(gateway, "beside the stage")[0] == 200
        takes(broker, stages, 1_048_588)
        batch.stage(pa.table({"value": [LARGE]}))
        batch.commit()
        takes(broker, frames, 1)
        status, answer = claim(gateway, "no frame fits")
        assert (status, answer["effect"]) == (507, "none"), answer
        assert f"raise max.message.bytes of topic {frames}" in answer["detail"]
        takes(broker, frames, 1_048_588)
        wait_until("an id is claimed", lambda: claim(gateway, "no frame fits")[0] == 200)
    assert broker.committed(there) == [b"a", LARGE.encode()]
    assert gateway.starts == 1
