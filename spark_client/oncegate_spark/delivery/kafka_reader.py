"""Reads what is committed of a Kafka topic, up to its end at the time of the call."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

_POLL_S = 1.0
_GROUP = "oncegate-find"  # a name that librdkafka asks for; nothing is committed under it


def committed_records(
    config: Mapping[str, Any], topic: str, since_ms: int | None, timeout_s: float
) -> "Iterator[Message]":
    """Yield the committed records of a topic, from the first whose timestamp is `since_ms` (ms since 1970) or later.

    It reads on to the end that the topic had for readers of *uncommitted* records: a committed record may stand behind
    another writer's open transaction, and brokers hand it out only once that one has ended. Raises TimeoutError where
    nothing comes for `timeout_s`; KafkaException where brokers do not answer.
    """
    from confluent_kafka import Consumer

    reading = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
    reading["auto.offset.reset"] = "earliest"  # where retention has passed the place meanwhile: what is left behind it
    with closing(Consumer({**config, **reading, "group.id": _GROUP})) as consumer:
        starts = _start_offsets(consumer, topic, since_ms, timeout_s)
        ends = _end_offsets(config, topic, len(starts), timeout_s)
        consumer.assign(starts)
        yield from _records(consumer, topic, ends, timeout_s)


def _records(consumer: Any, topic: str, ends: dict[int, int], timeout_s: float) -> "Iterator[Message]":
    from confluent_kafka import KafkaError

    until_s = time.monotonic() + timeout_s
    while ends:
        message = consumer.poll(_POLL_S)
        error = None if message is None else message.error()
        if message is not None and error is None:
            until_s = time.monotonic() + timeout_s
            yield message
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            if message.offset() >= ends.get(message.partition(), 0):
                ends.pop(message.partition(), None)
        elif time.monotonic() > until_s:
            raise TimeoutError(f"topic {topic} was not read to its end, by partition {ends}: {error or 'nothing came'}")


def _start_offsets(consumer: Any, topic: str, since_ms: int | None, timeout_s: float) -> "list[TopicPartition]":
    """Returns the offset to read each partition from. Raises KafkaException where brokers do not say it of all."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

    described = consumer.list_topics(topic, timeout_s).topics[topic]
    if described.error is not None:  # as of a topic that is not there, or not for this user: it has no partitions then
        raise KafkaException(described.error)
    partitions = described.partitions
    if since_ms is None:
        return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]
    # Behind the last record where none is as late: its end.
    begins = [TopicPartition(topic, number, since_ms) for number in partitions]
    starts = list(consumer.offsets_for_times(begins, timeout_s))
    for start in starts:
        if start.error is not None:
            raise KafkaException(start.error)
    return starts


def _end_offsets(config: Mapping[str, Any], topic: str, partitions: int, timeout_s: float) -> dict[int, int]:
    """Returns the offset behind each partition's last record, committed or not; empty partitions are left out."""
    from confluent_kafka import Consumer, TopicPartition

    # A consumer asks again where a partition's leader moves; an admin client does not.
    with closing(Consumer({**config, "isolation.level": "read_uncommitted", "group.id": _GROUP})) as consumer:
        all_of_them = (TopicPartition(topic, number) for number in range(partitions))
        ends = {
            partition.partition: consumer.get_watermark_offsets(partition, timeout_s)[1] for partition in all_of_them
        }
    return {partition: end for partition, end in ends.items() if end}
