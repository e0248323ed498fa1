"""Topics of the demo's broker, made and read by librdkafka: another client than Oncegate's and than Spark's."""

import json
import time
from collections.abc import Iterable, Iterator

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from demo.compare import COLUMNS, Row, Written

PARTITIONS = 3
_WAIT_S = 60
# A client that has missed its controller while a broker was starting waits for it to the end; another one finds it.
_CLIENTS = 3
# librdkafka's log tells of each connection that a killed broker breaks.
_QUIET = {"log_level": 0}


def name_of(way: str) -> str:
    """The topic that a way writes into."""
    return f"departures-{way}"


def make(bootstrap: str, ways: Iterable[str]) -> None:
    """Makes the topic of each way. Raises KafkaException."""
    topics = [NewTopic(name_of(way), PARTITIONS, 1) for way in ways]
    for others_left in reversed(range(_CLIENTS)):
        admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
        try:
            for made in admin.create_topics(topics, request_timeout=_WAIT_S / _CLIENTS).values():
                made.result()
            return
        except KafkaException as error:
            if not others_left or error.args[0].code() != KafkaError._TIMED_OUT:
                raise


def written(bootstrap: str, way: str) -> Written:
    """Every committed record of a way's topic by the time that its writer gave it, that time as seconds, monotonic.

    Raises KafkaException, and ValueError for a record that is none of the demo's.
    """
    ahead_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    messages = sorted(_committed(bootstrap, name_of(way)), key=lambda message: message.timestamp()[1])
    seen_s = np.array([message.timestamp()[1] / 1000 - ahead_s for message in messages], dtype=np.float64)
    return Written([row_of(message.value()) for message in messages], seen_s)


def row_of(value: bytes | None) -> Row:
    """A record's value as the row that it was made of."""
    columns = json.loads(value or b"null")
    if not isinstance(columns, dict) or tuple(columns) != COLUMNS:
        raise ValueError(f"a record holds {value!r}, expected the columns {', '.join(COLUMNS)}")
    return tuple(columns.values())


def _committed(bootstrap: str, topic: str) -> Iterator[Message]:
    """What is there of each partition, up to its end, for a reader to whom only committed transactions count."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **_QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        yield from _to_the_end(consumer)
    finally:
        consumer.close()


def _to_the_end(consumer: Consumer) -> Iterator[Message]:
    left = PARTITIONS
    while left:
        message = consumer.poll(_WAIT_S)
        if message is None:
            raise KafkaException(f"{left} partitions were not read to their end")
        if (error := message.error()) is None:
            yield message
        elif error.code() == KafkaError._PARTITION_EOF:
            left -= 1
        else:
            raise KafkaException(error)
