"""Creates and removes topics of ledgers without the gateway's knowledge."""

import json

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support.kafka_broker import WAIT_S, Broker

KEPT = {"retention.ms": "-1", "min.insync.replicas": "1"}


def make(broker: Broker, topic: str, **config: str) -> None:
    """Creates a topic that never deletes records. `config` overrides settings, with underscores for dots."""
    kept = {**KEPT, **{name.replace("_", "."): value for name, value in config.items()}}
    broker.admin.create_topics([NewTopic(topic, 1, 1, config=kept)])[topic].result(WAIT_S)


def remove(broker: Broker, topic: str) -> None:
    """Removes a topic. Waits until the broker knows, because the controller answers first."""
    broker.admin.delete_topics([topic])[topic].result(WAIT_S)
    while topic in broker.admin.list_topics(timeout=WAIT_S).topics:
        pass


def put(broker: Broker, topic: str, key: str, value: object) -> None:
    """Writes a record that no gateway would write."""
    producer = Producer({"bootstrap.servers": broker.cluster.bootstrap})
    producer.produce(topic, json.dumps(value).encode(), key.encode(), partition=0)
    assert producer.flush(WAIT_S) == 0


def configure(broker: Broker, topic: str, setting: str, value: str) -> None:
    entry = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    broker.admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
