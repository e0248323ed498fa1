"""Writes records into a Kafka topic in transactions, and reads back the records that a dead writer committed.

Fence and read: a new producer with the same transactional id ends the previous producer's transaction and fences it
(KIP-98). Then the topic is read to its end, committed records only.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from oncegate_spark.delivery.sink import Record
from oncegate_spark.errors import Fenced, Outcome, SinkRefused
from oncegate_spark.kafka_client import hand_over, is_fenced, kafka_client

if TYPE_CHECKING:
    from confluent_kafka import Message, Producer, TopicPartition


_POLL_S = 1.0
_GROUP = "oncegate-find"  # required by librdkafka; nothing is committed under it


def committed_records(
    config: Mapping[str, Any], topic: str, since_ms: int | None, timeout_s: float
) -> "Iterator[Message]":
    """Yields the committed records of a topic, from the first whose timestamp is `since_ms` (ms since 1970) or later.

    Reads up to the end offset for *uncommitted* readers: a committed record may follow another writer's open
    transaction, and brokers deliver it only once that transaction has ended. Raises TimeoutError if nothing arrives for
    `timeout_s`, KafkaException if brokers do not respond.
    """
    from confluent_kafka import Consumer

    reading = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
    reading["auto.offset.reset"] = "earliest"  # if retention deletes the start offset meanwhile
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
            raise TimeoutError(
                f"topic {topic} was not read to its end, partitions {ends}: {error or 'nothing received'}"
            )


def _start_offsets(consumer: Any, topic: str, since_ms: int | None, timeout_s: float) -> "list[TopicPartition]":
    """Returns the start offset of each partition. Raises KafkaException if brokers do not return all of them."""
    from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

    described = consumer.list_topics(topic, timeout_s).topics[topic]
    if described.error is not None:  # the topic does not exist, or not for this user: it then has no partitions
        raise KafkaException(described.error)
    partitions = described.partitions
    if since_ms is None:
        return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions]
    # A partition without a record that late starts at its end.
    begins = [TopicPartition(topic, number, since_ms) for number in partitions]
    starts = list(consumer.offsets_for_times(begins, timeout_s))
    for start in starts:
        if start.error is not None:
            raise KafkaException(start.error)
    return starts


def _end_offsets(config: Mapping[str, Any], topic: str, partitions: int, timeout_s: float) -> dict[int, int]:
    """Returns each partition's end offset for uncommitted readers; empty partitions are left out."""
    from confluent_kafka import Consumer, TopicPartition

    # A consumer retries when a partition's leader moves; an admin client does not.
    with closing(Consumer({**config, "isolation.level": "read_uncommitted", "group.id": _GROUP})) as consumer:
        all_of_them = (TopicPartition(topic, number) for number in range(partitions))
        ends = {
            partition.partition: consumer.get_watermark_offsets(partition, timeout_s)[1] for partition in all_of_them
        }
    return {partition: end for partition, end in ends.items() if end}


ID_HEADER = "oncegate-id"
TIMEOUT_MS = 30_000  # timeout of each call; a coordinator that moves to another broker responds within seconds


class KafkaSink:
    """Writes each record's body, bytes or None, with its id in the header `oncegate-id`; one transaction per claim.

    Args:
        transactional_id: names the writer's part of the input, constant across restarts; for instance one per partition
            of a source
        config: further librdkafka settings, such as those for authentication
        key: returns a record's key; by default the id's bytes
        since_ms: `find` reads from the first record with this timestamp or later, in ms since 1970 by its writer's
            clock; by default the whole topic

    Guarantee: once for readers of committed records, if a redelivered record is written under the same transactional
    id, and the topic still has everything written since. Two live writers with one transactional id fence each other:
    the older one raises Fenced. A failed commit is in doubt, and resolved by `find`.
    """

    records_max = 10_000  # one transaction

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        transactional_id: str,
        *,
        config: Mapping[str, Any] | None = None,
        key: Callable[[Record], bytes | None] | None = None,
        since_ms: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        self._kafka: Any = kafka_client("the sink of Kafka")
        self._topic, self._transactional_id = topic, transactional_id
        self._config = {"bootstrap.servers": bootstrap, "log_level": 0, **(config or {})}
        self._key = key or (lambda record: record.id.encode())
        self._since_ms, self._timeout_s = since_ms, timeout_ms / 1000
        self._producer: Producer | None = None

    def write(self, records: Sequence[Record]) -> None:
        """Writes records in one transaction. Raises SinkRefused if it was aborted, and Fenced; after other errors it is
        in doubt.
        """
        producer, is_committing = self._producer or self._fenced(), False
        try:
            producer.begin_transaction()
            for record in records:
                self._produce(producer, record)
            is_committing = True
            producer.commit_transaction(self._timeout_s)
        except Exception as raised:
            self._failed(producer, raised, is_committing)
            raise

    def find(self, ids: Sequence[str]) -> set[str]:
        """Fences earlier writers with this transactional id; returns the ids of committed records in the topic."""
        self._fenced()
        wanted = set(ids)
        reading = committed_records(self._config, self._topic, self._since_ms, self._timeout_s)
        return {
            message_id for message in reading if (message_id := _id_of(message)) is not None and message_id in wanted
        }

    def close(self) -> None:
        """Discards the producer; the next start under its transactional id ends an open transaction."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    def _fenced(self) -> "Producer":
        """Returns a new producer with this transactional id, after ending all transactions of its predecessors."""
        self.close()
        settings = {**self._config, "transactional.id": self._transactional_id}
        producer: Producer = self._kafka.Producer(settings)
        self._producer = producer
        try:
            producer.init_transactions(self._timeout_s)
        except BaseException:
            self.close()
            raise
        return producer

    def _produce(self, producer: "Producer", record: Record) -> None:
        headers = [(ID_HEADER, record.id.encode())]
        hand_over(producer, self._topic, value=record.body, key=self._key(record), headers=headers)

    def _failed(self, producer: "Producer", raised: Exception, is_committing: bool) -> None:
        """Raises if the outcome of a failed transaction is known; returns if it is in doubt."""
        self._producer = None
        error = raised.args[0] if isinstance(raised, self._kafka.KafkaException) else None
        what = f"transaction of {self._transactional_id} on topic {self._topic}: {error.str() if error else raised}"
        if error is not None and is_fenced(self._kafka, error):
            raise Fenced(f"{what}: a newer writer uses this transactional id", outcome=Outcome.UNKNOWN)
        # Until a commit is tried nothing is in doubt, for instance after a record too large for the client.
        if is_committing and (error is None or not error.txn_requires_abort()):
            return
        try:
            producer.abort_transaction(self._timeout_s)
        except self._kafka.KafkaException:
            return
        # The producer must not be reused: librdkafka skips the sequences of unsent records.
        raise SinkRefused(f"{what}; it was aborted: nothing was written")


def _id_of(message: "Message") -> str | None:
    headers: Any = message.headers() or []
    ids = [value for name, value in headers if name == ID_HEADER and value is not None]
    return str(ids[0], "utf-8", "replace") if ids else None
