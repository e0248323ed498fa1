"""Tracks the batches of a transaction: bounds the bytes in flight, and records which are answered or refused."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.errors import MessageSizeTooLargeError

from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.record_batch import RecordBatch
from oncegate.ledgers.kafka.transactions.ends import RecordTooLarge
from oncegate.ledgers.kafka.watch import Deadlines


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch and its partition."""

    partition: Partition
    encoded: RecordBatch


Batches = Sequence[Batch] | AsyncIterable[Batch]


async def each_of(batches: Batches) -> AsyncIterator[Batch]:
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield batch
    else:
        for batch in batches:
            yield batch


class Sending:
    """Futures of the queued batches of a transaction, and their unanswered bytes.

    `bytes_max`: maximum of unanswered bytes; a single batch may be larger. `goes_on`: called for each written batch.
    """

    def __init__(self, bytes_max: int, goes_on: Callable[[], None]) -> None:
        self._bytes_max = bytes_max
        self._goes_on = goes_on
        self.answered_bytes = 0
        self._sent: list[tuple[Partition, int, asyncio.Future[Any]]] = []
        self._unanswered: dict[asyncio.Future[Any], int] = {}
        self._next: Partition | None = None

    async def room_for(self, batch: Batch) -> None:
        """Waits until a batch fits within `bytes_max`. Raises the error of an earlier batch."""
        self._next = batch.partition
        while self._unanswered and sum(self._unanswered.values()) + batch.encoded.size() > self._bytes_max:
            answered, _ = await asyncio.wait(self._unanswered, return_when=asyncio.FIRST_COMPLETED)
            for future in answered:
                del self._unanswered[future]
                future.result()

    def add(self, batch: Batch, future: "asyncio.Future[Any]") -> None:
        size_bytes = batch.encoded.size()
        self._sent.append((batch.partition, size_bytes, future))
        self._unanswered[future] = size_bytes
        self._next = None
        future.add_done_callback(lambda done: self._answered(done, size_bytes))

    def _answered(self, future: "asyncio.Future[Any]", size_bytes: int) -> None:
        if not failed(future):
            self.answered_bytes += size_bytes
            self._goes_on()

    def progress(self, deadlines: Deadlines) -> str:
        """Describes how much was written before the timeout, and which options raise it."""
        return (
            f"after {self.answered_bytes} bytes no batch was answered within send_ms={deadlines.send_ms}, or not all "
            f"within {deadlines.sending_ms} ms (transaction_ms - commit_ms): raise them, or write smaller batches"
        )

    async def offsets(self) -> list[int]:
        """Waits for all answers, and returns the first offset of each batch. Raises the first error."""
        return list(await asyncio.gather(*(future for *_, future in self._sent)))

    def partitions(self, topics: Collection[str]) -> list[Partition]:
        """Returns the partitions of the queued batches and the next one, as far as they belong to these topics."""
        all_of_them = [*(partition for partition, *_ in self._sent), *([] if self._next is None else [self._next])]
        return [partition for partition in dict.fromkeys(all_of_them) if partition.topic in topics]

    def too_large(self) -> RecordTooLarge:
        """Returns the error for batches that the brokers refused as too large."""
        refused = [(partition, size_bytes) for partition, size_bytes, future in self._sent if _is_too_large(future)]
        (topic, number), size_bytes = refused[0]
        why = (
            f"not written: a batch of {size_bytes} bytes is more than {topic}-{number} takes: raise "
            f"max.message.bytes of topic {topic} (without one message.max.bytes of the brokers counts), or write "
            "smaller records; what is written without it is taken"
        )
        return RecordTooLarge(why, list(dict.fromkeys(partition for partition, _ in refused)))

    def culprits(self) -> list[Partition]:
        """Returns the partitions that refused a batch or did not answer;
        if there are none, the partition of the next batch.
        """
        found = [partition for partition, _, future in self._sent if failed(future)]
        return list(dict.fromkeys(found)) or ([] if self._next is None else [self._next])


def failed(future: "asyncio.Future[Any]") -> bool:
    """Returns True for a future that is pending, cancelled or has an error;
    retrieves the error, so that asyncio does not log it.
    """
    return not future.done() or future.cancelled() or future.exception() is not None


def _is_too_large(future: "asyncio.Future[Any]") -> bool:
    return future.done() and not future.cancelled() and isinstance(future.exception(), MessageSizeTooLargeError)
