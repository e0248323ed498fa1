"""Takes the last marker out of partitions of a broker's disk, as a coordinator does that passes them over."""

import struct
import time
from pathlib import Path

from confluent_kafka import KafkaException

from tests.support.kafka_broker import WAIT_S, Broker

# Base offset and length stand before what the length counts; the attributes, with the bit of a control batch, behind.
_HEAD = struct.Struct(">qi")
_ATTRIBUTES_AT, _CONTROL = 21, 0x20


def forget_markers(broker: Broker, *topics: str) -> None:
    """Kills the broker, cuts the last batch of these topics off, which has to be a marker, and starts it again."""
    for topic in topics:
        # Coordinators answer before they have written them.
        while len(set(broker.ends(topic))) > 1:
            time.sleep(0.01)
    broker.cluster.kill_node(1)
    try:
        for topic in topics:
            _cut(broker.cluster.folder / "broker-1" / f"{topic}-0" / f"{0:020}.log")
    finally:
        broker.cluster.start_node(1)
    for topic in topics:
        _await_leader(broker, topic)


def _await_leader(broker: Broker, topic: str) -> None:
    """Waits until the broker that was started again answers for this topic too."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            broker.ends(topic)
        except KafkaException:
            if time.monotonic() > until:
                raise
            # What the client remembers is of the broker's life before.
            broker.admin.list_topics(topic, timeout=WAIT_S)
        else:
            return


def _cut(log: Path) -> None:
    data, at, last = log.read_bytes(), 0, 0
    while at + _HEAD.size <= len(data) and (length := _HEAD.unpack_from(data, at)[1]):
        last, at = at, at + _HEAD.size + length
    assert int.from_bytes(data[last + _ATTRIBUTES_AT :][:2], "big") & _CONTROL, f"{log} ends with no marker"
    log.write_bytes(data[:last])
