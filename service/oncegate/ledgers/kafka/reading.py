"""Reads the committed records of a partition, from an offset to an end determined beforehand.

aiokafka's consumer waits forever at a transaction that stays open; here a read without progress fails after `STALL_S`.
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

# Time without a record or a marker after which a transaction is assumed to be open and not fenced.
STALL_S = 30.0
# Timeout of one poll: bounds how late a stall is noticed.
_POLL_MS = 500
# Bytes per fetch from a partition; records are at most a megabyte.
_FETCH_BYTES = 8 << 20


class Stalled(TimeoutError):
    """A read made no progress: a transaction is open in the partition, or the partition has no leader."""


class Trimmed(Exception):
    """The records at the requested offset have been deleted."""


@dataclass(frozen=True, slots=True)
class Record:
    """A committed record."""

    offset: int
    key: bytes | None
    value: bytes | None


class Consumer(AIOKafkaConsumer):  # type: ignore[misc]
    """aiokafka's consumer over our `Client`."""

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
    """Reader of one partition at a time. The first call connects; call `stop` last, or use `reader`.

    All calls raise KafkaError, OSError: no broker can be reached, or it refuses this client.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._watch = Watch(settings, READING)
        self._connecting = asyncio.Lock()
        # For committed records, and for all records.
        self._consumers: tuple[Consumer, Consumer] | None = None

    async def _connected(self) -> tuple[Consumer, Consumer]:
        async with self._connecting:
            if self._consumers is None:
                committed, every = (
                    Consumer(self._settings, self._watch, level) for level in ("read_committed", "read_uncommitted")
                )
                try:
                    with self._watch.telling():
                        await committed.start()
                        await every.start()
                except BaseException:
                    await uncancelled(_stop(committed, every))
                    raise
                self._consumers = committed, every
            return self._consumers

    async def stop(self) -> None:
        """Closes the connections, even if the caller is cancelled meanwhile."""
        async with self._connecting:
            consumers, self._consumers = self._consumers, None
        if consumers is not None:
            await uncancelled(_stop(*consumers))

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        """Returns the first retained offset and the end offset, which counts uncommitted records too."""
        at = TopicPartition(*partition)
        _, every = await self._connected()
        with self._watch.telling():
            async with asyncio.timeout(STALL_S):
                first = (await every.beginning_offsets([at]))[at]
                return first, (await every.end_offsets([at]))[at]

    async def stable_end(self, partition: Partition) -> int:
        """Returns the last stable offset, up to which a read_committed consumer reads.

        No open transaction begins before it.
        """
        at = TopicPartition(*partition)
        committed, _ = await self._connected()
        async with asyncio.timeout(STALL_S):
            return int((await committed.end_offsets([at]))[at])

    async def records(
        self, partition: Partition, first: int, end: int, poll_ms: int = _POLL_MS
    ) -> AsyncGenerator[Record, None]:
        """Yields the committed records from offset `first`, inclusive, to `end`, exclusive.

        `poll_ms`: delay in noticing the end if the last entry before it is a transaction marker.

        Raises Stalled; Trimmed: records from `first` on were deleted.
        """
        at = TopicPartition(*partition)
        committed, _ = await self._connected()
        committed.assign([at])
        committed.seek(at, first)
        position, until = first, now_s() + STALL_S
        while position < end:
            try:
                with self._watch.telling():
                    found = await committed.getmany(at, timeout_ms=poll_ms)
            except OffsetOutOfRangeError as error:
                raise Trimmed(f"offset {position} of {partition.topic} was deleted meanwhile") from error
            reached = await committed.position(at)
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


async def _stop(*consumers: Consumer) -> None:
    # Let aiokafka's tasks start: if it cancels one that has not started, its own `stop` is cancelled too.
    await sleep_s(0)
    for consumer in consumers:
        with suppress(KafkaError):
            await consumer.stop()


@asynccontextmanager
async def reader(settings: Mapping[str, Any]) -> AsyncIterator[Reader]:
    made = Reader(settings)
    try:
        yield made
    finally:
        await made.stop()
