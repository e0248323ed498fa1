"""Removes the last marker from partitions on a broker's disk, as if the coordinator had skipped them."""

import struct
import time
from pathlib import Path

from confluent_kafka import KafkaException

from tests.support.kafka_broker import WAIT_S, Broker

# The base offset and the length precede the counted bytes; the attributes, with the control-batch bit, follow.
_HEAD = struct.Struct(">qi")
_ATTRIBUTES_AT, _CONTROL = 21, 0x20


def forget_markers(broker: Broker, *topics: str) -> None:
    """Kills the broker, removes the last batch of these topics, which must be a marker, and restarts the broker."""
    for topic in topics:
        # Coordinators answer before they have written the markers.
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
    """Waits until the restarted broker answers for this topic."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            broker.ends(topic)
        except KafkaException:
            if time.monotonic() > until:
                raise
            # The client's metadata is from before the restart.
            broker.admin.list_topics(topic, timeout=WAIT_S)
        else:
            return


def _cut(log: Path) -> None:
    data, at, last = log.read_bytes(), 0, 0
    while at + _HEAD.size <= len(data) and (length := _HEAD.unpack_from(data, at)[1]):
        last, at = at, at + _HEAD.size + length
    assert int.from_bytes(data[last + _ATTRIBUTES_AT :][:2], "big") & _CONTROL, f"{log} ends with no marker"
    log.write_bytes(data[:last])
