"""Reads partitions as they were committed, from an offset to an end that was asked for before.

aiokafka's consumer waits for ever where a transaction stays open; here nothing waits longer than `STALL_S` without
getting on.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from oncegate.clock import now_s, sleep_s
from oncegate.ledgers.kafka.client import Client
from oncegate.ledgers.kafka.partition import Partition
from oncegate.ledgers.kafka.refusals import READING, BrokersRefuse
from oncegate.ledgers.kafka.watch import Watch
from oncegate.ledgers.uncancelled import uncancelled

# Without a record or a marker for so long: a transaction is open whose producer nobody has ended.
STALL_S = 30.0
# Waited for at once, so that a stall is seen.
_POLL_MS = 500
# Fetched at once from a partition; records are at most a megabyte.
_FETCH_BYTES = 8 << 20


class Stalled(TimeoutError):
    """Says that a partition was read no further: a transaction is open there, or it has no leader."""


class Trimmed(Exception):
    """Says that the records from the offset on were deleted meanwhile."""


@dataclass(frozen=True, slots=True)
class Record:
    """Carries a committed record."""

    offset: int
    key: bytes | None
    value: bytes | None


class Consumer(AIOKafkaConsumer):  # type: ignore[misc]
    """Reads as aiokafka's consumer does, over a client of ours."""

    def __init__(self, settings: Mapping[str, Any], watch: Watch, isolation_level: str) -> None:
        super().__init__(
            isolation_level=isolation_level,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_bytes=_FETCH_BYTES,
            max_partition_fetch_bytes=_FETCH_BYTES,
            **settings,
        )
        self._client = Client(settings, watch)


class Reader:
    """Reads one partition at a time. Use `start` first and `stop` last, or `reader`, which does both."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._watch = Watch(settings, READING)
        self._committed, self._uncommitted = (
            Consumer(settings, self._watch, level) for level in ("read_committed", "read_uncommitted")
        )

    async def start(self) -> None:
        """Connects; KafkaError, OSError: no broker is there, or it refuses what the text says."""
        try:
            with self._watch.telling():
                await self._committed.start()
                await self._uncommitted.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Lets go of the connections, also where it is cancelled meanwhile."""
        await uncancelled(self._stop())

    async def _stop(self) -> None:
        # aiokafka cancels tasks that have not begun, and then its own stop is cancelled with them.
        await sleep_s(0)
        for consumer in (self._committed, self._uncommitted):
            with suppress(KafkaError):
                await consumer.stop()

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        """Returns the first offset that is kept, and the one behind the last, committed or not.

        KafkaError, TimeoutError.
        """
        with self._watch.telling():
            return await self._bounds(TopicPartition(*partition))

    async def _bounds(self, at: TopicPartition) -> tuple[int, int]:
        async with asyncio.timeout(STALL_S):
            first = (await self._uncommitted.beginning_offsets([at]))[at]
            return first, (await self._uncommitted.end_offsets([at]))[at]

    async def stable_end(self, partition: Partition) -> int:
        """Returns the offset up to which no transaction is open; KafkaError, TimeoutError."""
        at = TopicPartition(*partition)
        async with asyncio.timeout(STALL_S):
            # What a consumer of committed records is told as the end.
            return int((await self._committed.end_offsets([at]))[at])

    async def records(
        self, partition: Partition, first: int, end: int, poll_ms: int = _POLL_MS
    ) -> AsyncGenerator[Record, None]:
        """Yields the committed records of `first` to before `end`; returns once `end` is reached.

        `poll_ms`: how late that is seen where no record, but the marker of a transaction, stands before it.

        Raises Stalled, KafkaError; Trimmed: `first` was deleted.
        """
        at = TopicPartition(*partition)
        self._committed.assign([at])
        self._committed.seek(at, first)
        position, until = first, now_s() + STALL_S
        while position < end:
            try:
                with self._watch.telling():
                    found = await self._committed.getmany(at, timeout_ms=poll_ms)
            except OffsetOutOfRangeError as error:
                raise Trimmed(f"offset {position} of {partition.topic} was deleted meanwhile") from error
            reached = await self._committed.position(at)
            if reached > position:
                position, until = reached, now_s() + STALL_S
            elif now_s() > until:
                if (refusal := self._watch.refusal(TimeoutError())) is not None:
                    raise BrokersRefuse(str(refusal))
                raise Stalled(
                    f"{partition.topic}-{partition.number} is read no further than offset {position} of {end}: "
                    "a transaction is open there, or it has no leader"
                )
            for one in found.get(at, []):
                if one.offset < end:
                    yield Record(one.offset, one.key, one.value)


@asynccontextmanager
async def reader(settings: Mapping[str, Any]) -> AsyncIterator[Reader]:
    """Starts a reader, and stops it in the end."""
    found = Reader(settings)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()
