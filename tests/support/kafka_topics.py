"""Topics of ledgers that tests make and remove behind a gateway's back."""

import json

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from tests.support.kafka_broker import WAIT_S, Broker

KEPT = {"retention.ms": "-1", "min.insync.replicas": "1"}


def make(broker: Broker, topic: str, **config: str) -> None:
    """Make a topic that keeps what it is given, but for `config`, with _ for each dot."""
    kept = {**KEPT, **{name.replace("_", "."): value for name, value in config.items()}}
    broker.admin.create_topics([NewTopic(topic, 1, 1, config=kept)])[topic].result(WAIT_S)


def remove(broker: Broker, topic: str) -> None:
    """Remove a topic, and wait until the broker has heard of it too: the controller answers first."""
    broker.admin.delete_topics([topic])[topic].result(WAIT_S)
    while topic in broker.admin.list_topics(timeout=WAIT_S).topics:
        pass


def put(broker: Broker, topic: str, key: str, value: object) -> None:
    """Writes a record, as no gateway would."""
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap})
    producer.produce(topic, json.dumps(value).encode(), key.encode(), partition=0)
    assert producer.flush(WAIT_S) == 0
