"""Reads the topics of a ledger that another gateway owns, up to the first open transaction.

An owner that died within a transaction therefore does not block readers. A standby reads continuously; `read_now`
reads once.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import NamedTuple

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDown, NotFound
from oncegate.ledgers.frames import Frame
from oncegate.ledgers.kafka.address import Address, parse_address
from oncegate.ledgers.kafka.namespaces import NamespaceTopic
from oncegate.ledgers.kafka.reading import Reader, Trimmed
from oncegate.ledgers.kafka.shard.blobs import frames_of
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import OutputReadback
from oncegate.ledgers.kafka.shard.replay import Fold, TopicReader
from oncegate.ledgers.keys import read_keys
from oncegate.ledgers.server.replay import Batch, FollowedReader
from oncegate.ports import Chunk


class ReadLedger(NamedTuple):
    """A ledger opened for reading, which a different gateway may own.
    `batches`: its current entries, from the first.
    """

    key: bytes
    ledger: bytes
    batches: AsyncGenerator[Batch, None]


UNREADABLE: tuple[type[Exception], ...] = (Trimmed, KafkaError, OSError)


class FollowedTopics(FollowedReader[Fold]):
    """Tails the topics of a ledger that another gateway owns, up to the first open transaction. Call `close` last."""

    def __init__(self, place: KafkaPlace, fold: Fold) -> None:
        super().__init__(TopicReader(place), fold)
        self._place = place
        self._outputs = OutputReadback(place)
        self._reader = Reader(place.settings)
        self._has_begun = False

    async def close(self) -> None:
        await self._reader.stop()
        await self._outputs.close()

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns rows as `Outputs.fetch` does, up to the position read so far."""
        return await self._outputs.rows(self._fold.catalog, topic, partition, offset, max_rows, max_bytes)

    async def _new_frames(self) -> AsyncGenerator[Frame, None]:
        if not self._has_begun:
            # Once only. A low end that rises afterwards is `Trimmed`: frames in between were never read.
            self._read_to, _ = await self._reader.bounds(self._place.frames)
            self._has_begun = True
        end = await self._reader.stable_end(self._place.frames)
        async with aclosing(frames_of(self._reader, self._place, self._read_to, end)) as frames:
            async for frame in frames:
                yield frame
        self._read_to = max(end, self._read_to)


@asynccontextmanager
async def read_now(place: str, namespace: str) -> AsyncIterator[ReadLedger]:
    """Reads the current state of a namespace's ledger, without fencing its owner or writing anything.

    `place`: as for `open_kafka`.

    Raises:
        BadRequest, NotFound, KeyMismatch, LedgerDamaged: the ledger cannot be read.
        LedgerDown: the brokers are unavailable, or the owner compacted the topics during the read. Retriable.
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
            pass  # the snapshot is yielded first, and is known only once all is read
    async with aclosing(shard.replayed()) as batches:
        async for batch in batches:
            yield batch
