"""Creates and reads the demo's topics with librdkafka, a client that neither Oncegate nor Spark uses."""

import json
import time
from collections.abc import Iterable, Iterator

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from demo.compare import COLUMNS, Row, Written

PARTITIONS = 3
_WAIT_S = 60
# A client that missed the controller while the broker was starting waits until its timeout; a new client finds it.
_CLIENTS = 3
# Otherwise librdkafka logs each connection lost by the broker's death.
_QUIET = {"log_level": 0}


def name_of(way: str) -> str:
    return f"departures-{way}"


def make(bootstrap: str, ways: Iterable[str]) -> None:
    """Creates the topic of each way. Raises KafkaException."""
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
    """Returns every committed record of a way's topic, ordered by its writer's timestamp, in monotonic seconds.

    Raises KafkaException, and ValueError for a record that the demo did not write.
    """
    ahead_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    messages = sorted(_committed(bootstrap, name_of(way)), key=lambda message: message.timestamp()[1])
    seen_s = np.array([message.timestamp()[1] / 1000 - ahead_s for message in messages], dtype=np.float64)
    return Written([row_of(message.value()) for message in messages], seen_s)


def row_of(value: bytes | None) -> Row:
    """Parses the value of a record into its row. Raises ValueError if it is not one of the demo's."""
    columns = json.loads(value or b"null")
    if not isinstance(columns, dict) or tuple(columns) != COLUMNS:
        raise ValueError(f"a record holds {value!r}, expected the columns {', '.join(COLUMNS)}")
    return tuple(columns.values())


def _committed(bootstrap: str, topic: str) -> Iterator[Message]:
    """Yields the records of each partition up to its end, read with isolation level read_committed."""
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
