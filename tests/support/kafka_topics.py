"""Topics of ledgers that tests make and remove behind a gateway's back."""

import json

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

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


def configure(broker: Broker, topic: str, setting: str, value: str) -> None:
    """Changes one setting of a topic."""
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    broker.admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
