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
    """Reads one partition at a time. The first call connects; use `stop` last, or `reader`.

    All calls raise KafkaError, OSError: no broker can be reached, or it refuses this client, and the text says why.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._watch = Watch(settings, READING)
        self._connecting = asyncio.Lock()
        # Of committed records, and of all.
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
        """Closes the connections, also if the caller is cancelled meanwhile."""
        async with self._connecting:
            consumers, self._consumers = self._consumers, None
        if consumers is not None:
            await uncancelled(_stop(*consumers))

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        """Returns the first offset that is kept, and the one after the last record, committed or not."""
        at = TopicPartition(*partition)
        _, every = await self._connected()
        with self._watch.telling():
            async with asyncio.timeout(STALL_S):
                first = (await every.beginning_offsets([at]))[at]
                return first, (await every.end_offsets([at]))[at]

    async def stable_end(self, partition: Partition) -> int:
        """Returns the offset up to which no transaction is open: a consumer of committed records gets it as the end."""
        at = TopicPartition(*partition)
        committed, _ = await self._connected()
        async with asyncio.timeout(STALL_S):
            return int((await committed.end_offsets([at]))[at])

    async def records(
        self, partition: Partition, first: int, end: int, poll_ms: int = _POLL_MS
    ) -> AsyncGenerator[Record, None]:
        """Yields the committed records from offset `first` to before `end`.

        `poll_ms`: how late the end is noticed where the last entry before it is a transaction's marker.

        Raises Stalled; Trimmed: `first` was deleted.
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
    # aiokafka cancels tasks that have not begun, and then its own stop is cancelled with them.
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
