"""Holds what is written in a transaction: batches, all there or one after the other."""

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from oncegate.ledgers.kafka.partition import Partition


@dataclass(frozen=True, slots=True)
class Batch:
    """Carries records for one partition: `encoded` is what `AIOKafkaProducer.send_batch` takes."""

    partition: Partition
    encoded: Any


Batches = Sequence[Batch] | AsyncIterable[Batch]


async def each_of(batches: Batches) -> AsyncIterator[Batch]:
    """Yields the batches in their order, whether they are all there or come one after the other."""
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield batch
    else:
        for batch in batches:
            yield batch
