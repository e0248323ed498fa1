"""Reads a Kafka topic at isolation level `read_committed`, up to its end as of the start of reading.

aiokafka makes an object per record; afterwards ids are arrays. Its consumer runs only during calls.
"""

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

try:
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import KafkaError
except ModuleNotFoundError as error:
    from oncegate.core.errors import BadRequest

    raise BadRequest(f"an output on Kafka needs {error.name}: pip install 'oncegate[kafka]'") from error

from oncegate.clock import SystemClock
from oncegate.core.errors import BadRequest, NotFound
from oncegate.ledgers.kafka.security import Security
from oncegate.ledgers.url_options import without_passwords
from oncegate.verifier.ids import BATCH_ROWS
from oncegate.verifier.sources.kafka_ids import IdsOf
from oncegate.verifier.sources.outputs import Bounds, OutputPart, checked

# Time without a record or a marker after which an open transaction or a missing leader is assumed.
STALL_MS = 60_000
_POLL_MS = 500
_FETCH_BYTES = 8 << 20


def parsed(url: str) -> tuple[str, str, Security]:
    """Parses kafka://HOST:PORT[,HOST:PORT]/TOPIC[?security_protocol=…]: brokers, topic, connection settings.

    Raises BadRequest.
    """
    where, _, query = url.removeprefix("kafka://").partition("?")
    servers, _, topic = where.partition("/")
    if not url.startswith("kafka://") or not servers or not topic or "/" in topic or "@" in url:
        shown = without_passwords(url)
        raise BadRequest(f"{shown} must have the form kafka://HOST:PORT/TOPIC")
    return servers, topic, Security.parsed(parse_qsl(query, keep_blank_values=True))


class KafkaTopic:
    """Reads one topic; an `Output`. ids_of: extracts the ids of its records."""

    def __init__(self, url: str, ids_of: IdsOf) -> None:
        servers, self._topic, security = parsed(url)
        self._settings = {"bootstrap_servers": servers.split(","), **security.client_arguments()}
        self._ids_of = ids_of
        self._runner = asyncio.Runner()
        self._consumer: Any = None

    def bounds(self) -> Bounds:
        """Returns the offset bounds of committed records. Raises NotFound if the topic does not exist or no broker
        answers.
        """
        return checked(self._run(self._bounds()))

    async def _bounds(self) -> Bounds:
        consumer = await self._started()
        numbers = consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise NotFound(f"the brokers have no topic {self._topic}")
        partitions = [TopicPartition(self._topic, number) for number in range(max(numbers) + 1)]
        first, end = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        return [(first[partition], end[partition]) for partition in partitions]

    def parts(self, partition: int, first: int, end: int) -> Iterator[OutputPart]:
        """Yields the committed records. Raises NotFound if no more records arrive before the end is reached."""
        topic_partition, position, clock = TopicPartition(self._topic, partition), first, SystemClock()
        self._run(self._seek(topic_partition, first))
        until_ms = clock.monotonic_ms() + STALL_MS
        while position < end:
            records, reached = self._run(self._read(topic_partition))
            records = [record for record in records if record.offset < end]
            if reached > position:
                until_ms = clock.monotonic_ms() + STALL_MS
                offsets = np.array([record.offset for record in records], np.int64)
                yield OutputPart(self._ids_of(records), offsets, min(reached, end))
            elif clock.monotonic_ms() > until_ms:
                raise NotFound(
                    f"{self._topic}-{partition} cannot be read beyond offset {position} of {end}: a transaction is "
                    "open there, or it has no leader; progress is saved: run the same command later"
                )
            position = reached

    async def _seek(self, topic_partition: Any, offset: int) -> None:
        consumer = await self._started()
        consumer.assign([topic_partition])
        consumer.seek(topic_partition, offset)

    async def _read(self, topic_partition: Any) -> tuple[list[Any], int]:
        records = await self._consumer.getmany(topic_partition, timeout_ms=_POLL_MS, max_records=BATCH_ROWS)
        return records.get(topic_partition, []), await self._consumer.position(topic_partition)

    async def _started(self) -> Any:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="none",
                fetch_max_bytes=_FETCH_BYTES,
                max_partition_fetch_bytes=_FETCH_BYTES,
                **self._settings,
            )
            # Assigned before the start, so that the client fetches the topic's partitions.
            consumer.assign([TopicPartition(self._topic, 0)])
            self._consumer = consumer
            await consumer.start()
        return self._consumer

    def _run(self, call: Any) -> Any:
        try:
            return self._runner.run(call)
        except KafkaError as error:
            raise NotFound(f"the brokers of {self._topic} refused the request: {error}; progress is saved") from error

    def close(self) -> None:
        if self._consumer is not None:
            self._run(self._consumer.stop())
        self._runner.close()
