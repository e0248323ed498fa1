"""Writes records of duplicates to one topic of the ledger's brokers, with a non-transactional producer.

No transaction is needed: nothing depends on these records, and the ledger's own transactions do not wait for them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka.errors import KafkaError
from aiokafka.partitioner import DefaultPartitioner

from oncegate.core.errors import LedgerFull
from oncegate.ledgers.kafka.address import parse_address
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import record_batches
from oncegate.ledgers.kafka.refusals import Caller, refusal_of
from oncegate.ledgers.kafka.rows.user_topics import UserTopics
from oncegate.ledgers.kafka.transactions.producer import Producer
from oncegate.ledgers.kafka.transactions.sending import Batch
from oncegate.ledgers.kafka.watch import Watch
from oncegate.ports import NotTold

# Longer than a leader election; meanwhile records wait in a bounded queue.
WRITE_S = 10.0
_partition_of = DefaultPartitioner()


class KafkaDuplicates:
    """Implements `ports.DuplicateTopic` as a Kafka topic. Connects at the first write, and again after a failed one.
    Call `close`.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._producer: Producer | None = None

    async def write(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        try:
            async with asyncio.timeout(WRITE_S):
                producer = await self._connected()
                numbers = sorted(await producer.partitions_of(self._topic))
                parts: dict[int, list[tuple[bytes | None, bytes]]] = {}
                for key, value in records:
                    parts.setdefault(_partition_of(key, numbers, numbers), []).append((key, value))
                batches = [
                    Batch(Partition(self._topic, number), encoded)
                    for number, part in parts.items()
                    for encoded in record_batches(part)
                ]
                await asyncio.gather(*[await producer.send(batch) for batch in batches])
        except BaseException as error:
            await self.close()
            if not isinstance(error, KafkaError | OSError):  # OSError includes TimeoutError
                raise
            why = refusal_of(error, Caller.of(self._settings)) or repr(error)
            raise NotTold(f"topic {self._topic} does not take records of duplicates: {why}") from error

    async def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(Watch(self._settings), self._settings)
            await self._producer.start()
        return self._producer

    async def close(self) -> None:
        """Closes the connection without flushing."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.drop()


@asynccontextmanager
async def open_kafka_duplicates(place: str, topic: str) -> AsyncIterator[KafkaDuplicates]:
    """Opens an existing topic on a ledger's brokers. `place`: as for `open_kafka`.

    If the brokers are unavailable, the topic is checked at the first write.

    Raises:
        NotFound: there is no such topic.
        BadRequest: the topic is the gateway's own.
    """
    address = parse_address(place)
    known = UserTopics(address.settings, address.bootstrap, address.prefix)
    try:
        with suppress(LedgerFull):
            await known.ask([topic])
    finally:
        await known.close()
    duplicates = KafkaDuplicates(address.settings, topic)
    try:
        yield duplicates
    finally:
        await duplicates.close()
