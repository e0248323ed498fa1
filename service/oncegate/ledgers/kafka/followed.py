"""Reads a shard's topics while another gateway owns them: up to where no transaction is open.

So an owner that died in one holds nobody up. They are followed by a standby, or read once (`read_now`).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import NamedTuple

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDown, NotFound
from oncegate.ledgers.frames import entries_of
from oncegate.ledgers.kafka.address import Address, parse_address
from oncegate.ledgers.kafka.namespaces import NamespaceTopic
from oncegate.ledgers.kafka.reading import Reader, Trimmed, reader
from oncegate.ledgers.kafka.shard.assembly import frames_of
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.opening import settle
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import OutputReadback
from oncegate.ledgers.kafka.shard.replay import frames_up_to, replayed
from oncegate.ledgers.keys import read_keys
from oncegate.ports import Chunk, Replayed

Batch = Sequence[Replayed]


class ReadLedger(NamedTuple):
    """Carries a ledger that somebody else may own. `batches`: its entries as they are now, from the first one on."""

    key: bytes
    ledger: bytes
    batches: AsyncGenerator[Batch, None]


UNREADABLE: tuple[type[Exception], ...] = (Trimmed, KafkaError, OSError)


class FollowedTopics:
    """Implements `following.FollowedShard` over topics, and gives their frames to `fold`. Use `close` last."""

    def __init__(self, place: KafkaPlace, fold: Fold) -> None:
        self._place = place
        self._fold = fold
        self._read_to = 0
        self._outputs = OutputReadback(place)
        self._closing = AsyncExitStack()
        self._reader: Reader | None = None

    async def close(self) -> None:
        """Implements the protocol's `FollowedShard.close`."""
        self._reader = None
        await self._closing.aclose()
        await self._outputs.close()

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`, as far as was read."""
        return await self._outputs.rows(self._fold.catalog, topic, partition, offset, max_rows, max_bytes)

    async def more(self) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.more`: what was committed since."""
        found = await self._connected()
        end = await found.stable_end(self._place.frames)
        async with aclosing(frames_of(found, self._place, self._read_to, end)) as frames:
            async for frame in frames:
                self._fold.take(frame)
                if self._fold.settled:
                    self._fold.catch_up()
                if entries := entries_of(frame):
                    yield entries
        self._read_to = max(end, self._read_to)

    async def _connected(self) -> Reader:
        if self._reader is None:
            found = await self._closing.enter_async_context(reader(self._place.settings))
            self._read_to, _ = await found.bounds(self._place.frames)
            self._reader = found
        return self._reader

    async def replayed(self) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.replayed`."""
        await settle(self._place, self._fold)
        async with aclosing(replayed(self._place, self._fold, 1)) as batches:
            async for batch in batches:
                yield batch

    async def last(self, serial: int, last_serial: int) -> AsyncGenerator[Batch, None]:
        """Implements the protocol's `FollowedShard.last`."""
        async with aclosing(frames_up_to(self._place, (self._read_to, serial), last_serial)) as frames:
            async for frame in frames:
                if entries := entries_of(frame):
                    yield entries


@asynccontextmanager
async def read_now(place: str, namespace: str) -> AsyncIterator[ReadLedger]:
    """Reads a namespace's ledger as it is now; fences nobody, stands by for nobody, and writes nothing.

    `place`: as `open_kafka` takes it. Raises BadRequest, NotFound, KeyMismatch, LedgerDamaged; LedgerDown: the brokers
    are away, or the owner has compacted what was being read: read it anew.
    """
    address = parse_address(place)
    keys, listed = read_keys(address.master_key, address.old_master_key), _list_of(address)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(listed.close)
        try:
            found = (await listed.refresh()).namespaces.get(namespace)
            if found is None or found.deleted:
                raise NotFound(f"there is no namespace {namespace} at {address.shown}; nothing was written")
            topics = KafkaPlace(namespace, found, address.settings, address.deadlines, keys)
            shard = FollowedTopics(topics, Fold(found.ledger, topics.frames.topic))
            stack.push_async_callback(shard.close)
            yield ReadLedger(keys.unwrap(found.key), found.ledger, _all_of(shard))
        except UNREADABLE as error:
            raise LedgerDown(f"{address.shown} cannot be read now ({error!r}): read it again") from error


def _list_of(address: Address) -> NamespaceTopic:
    return NamespaceTopic(address.settings, address.prefix, address.deadlines)


async def _all_of(shard: FollowedTopics) -> AsyncGenerator[Batch, None]:
    async with aclosing(shard.more()) as batches:
        async for _ in batches:
            pass  # the snapshot comes first, and only now is it known
    async with aclosing(shard.replayed()) as batches:
        async for batch in batches:
            yield batch
