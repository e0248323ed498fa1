"""The demo's count of a Kafka topic: the committed records only."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from confluent_kafka import Producer

from demo.compare import COLUMNS, Row
from demo.kafka import topics
from tests.support.kafka_broker import WAIT_S, Broker, one_broker

WAY = "staged"
FIRST_MS = 1_795_428_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with one_broker(tmp_path_factory.mktemp("kafka")) as broker:
        topics.make(broker.cluster.bootstrap, [WAY, "kafka"])
        yield broker


def row(flight: int) -> Row:
    return (f"2013-01-01T{flight:02d}:00:00Z", "UA", flight, None, *COLUMNS[4:])


def value(flight: int) -> bytes:
    return json.dumps(dict(zip(COLUMNS, row(flight), strict=True))).encode()


@pytest.mark.server
def test_rows_of_an_aborted_transaction_did_not_come_and_copies_of_committed_ones_did(broker: Broker) -> None:
    settings = {"bootstrap.servers": broker.cluster.bootstrap, "transactional.id": "test"}
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    for flights, commits in (((1, 2), True), ((3,), False), ((1,), True)):
        producer.begin_transaction()
        for flight in flights:
            producer.produce(topics.name_of(WAY), value(flight), str(flight).encode())
        producer.flush(WAIT_S)
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
    assert sorted(topics.written(broker.cluster.bootstrap, WAY).rows) == [row(1), row(1), row(2)]


@pytest.mark.server
def test_rows_of_several_partitions_are_in_the_order_of_their_times(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap})
    for flight in (5, 3, 4, 1, 2):
        partition = flight % topics.PARTITIONS
        producer.produce(topics.name_of("kafka"), value(flight), partition=partition, timestamp=FIRST_MS + flight)
    assert producer.flush(WAIT_S) == 0
    came = topics.written(broker.cluster.bootstrap, "kafka")
    assert came.rows == [row(flight) for flight in (1, 2, 3, 4, 5)]
    assert np.allclose(np.diff(came.seen_s), 0.001, atol=1e-6)


@pytest.mark.server
def test_topics_are_made_by_another_client_where_one_finds_no_controller(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        addresses = iter([f"127.0.0.1:{silent.getsockname()[1]}", broker.cluster.bootstrap])
        client = topics.AdminClient
        monkeypatch.setattr(
            topics, "AdminClient", lambda asked: client({**asked, "bootstrap.servers": next(addresses)})
        )
        monkeypatch.setattr(topics, "_WAIT_S", 3)
        topics.make(broker.cluster.bootstrap, ["another"])
    assert topics.written(broker.cluster.bootstrap, "another").rows == []


@pytest.mark.parametrize("strange", [None, b"{}", b"1", value(1)[:-1] + b', "more": 1}'])
def test_a_record_that_is_no_row_of_the_demo_is_refused(strange: bytes | None) -> None:
    with pytest.raises(ValueError, match="expected the columns time_hour, carrier"):
        topics.row_of(strange)
