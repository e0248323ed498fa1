"""Follows a ledger that another gateway owns, and takes it over.

1. what is committed so far is folded, and its entries are given: the snapshot, then the frames behind it
2. what comes is folded, and its entries are given, a look at a time, until this gateway is to own the ledger
3. it is opened as always (`opening`), with what was folded; the entries that came last are given. That is the end

Nothing is fenced before 3, and nothing that is read before it is judged: whatever is wrong then is read again from the
beginning, into a new index. Only up to where no transaction is open is read, so that an owner that died in one holds
nobody up.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from aiokafka.errors import KafkaError

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.frames import entries_of
from oncegate.ledgers.kafka.reading import Reader, Trimmed, reader
from oncegate.ledgers.kafka.shard.assembly import frames_of
from oncegate.ledgers.kafka.shard.fold import Fold
from oncegate.ledgers.kafka.shard.opening import settle
from oncegate.ledgers.kafka.shard.place import KafkaPlace
from oncegate.ledgers.kafka.shard.readback import OutputReadback
from oncegate.ledgers.kafka.shard.replay import frames_up_to, replayed
from oncegate.ledgers.kafka.standby.election import LOOK_S, Election
from oncegate.ports import Chunk, OpenLedger, Replayed

Batch = Sequence[Replayed]
# Owns the ledger, given what was folded; whose fold it has then.
TakeOver = Callable[[Fold | None], Awaitable[tuple[OpenLedger, Fold]]]


class Following:
    """Follows one ledger. Implements `ports.Outputs` for what is read meanwhile; use `close` last."""

    def __init__(self, place: KafkaPlace, election: Election, take_over: TakeOver) -> None:
        self._place = place
        self._election = election
        self._take_over = take_over
        self._fold = Fold(place.listed.ledger, place.frames.topic)
        self._read_to = 0
        self._outputs = OutputReadback(place)
        self._opened: OpenLedger | None = None

    async def close(self) -> None:
        """Lets go of the connections."""
        await self._outputs.close()

    def opened(self) -> OpenLedger:
        """Returns the ledger once `batches` has ended; RuntimeError before."""
        if self._opened is None:
            raise RuntimeError(f"{self._place.frames.topic} is followed, and not owned")
        return self._opened

    def compacted(self) -> int:
        """Returns the position up to which entries were compacted; 0 when none were."""
        return self._fold.collected.position if self._fold.collected else 0

    def standing(self) -> str:
        """Says whom it stands by for, and how far it has read; empty once this gateway is to own the ledger."""
        if self._election.leads:
            return ""
        generation, position, who = self._fold.generation, self._fold.end.position, self._election.described()
        return f"{who}; {self._place.frames.topic} was read to position {position}, of generation {generation}"

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`, as far as was read."""
        return await self._outputs.rows(self._fold.catalog, topic, partition, offset, max_rows, max_bytes)

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yields all entries as `Ledger.replay` does, then those that come; ends once `opened` is this gateway's own.

        Raises what an opening does, then by this gateway's own doing; LedgerDown: it is to be followed anew.
        """
        try:
            async with aclosing(self._followed()) as batches:
                async for batch in batches:
                    yield batch
        except (Trimmed, LedgerDamaged, KafkaError, OSError) as error:
            topic = self._place.frames.topic
            raise LedgerDown(f"{topic} cannot be followed from here ({error}); it is followed anew") from error
        async with aclosing(self._taken_over()) as batches:
            async for batch in batches:
                yield batch

    async def _followed(self) -> AsyncGenerator[Batch, None]:
        async with reader(self._place.settings) as found:
            first, _ = await found.bounds(self._place.frames)
            self._read_to = first
            async with aclosing(self._more(found)) as batches:
                async for _ in batches:
                    pass  # the snapshot comes first, and only now is it known
            await settle(self._place, self._fold)
            async with aclosing(replayed(self._place, self._fold, 1)) as batches:
                async for batch in batches:
                    yield batch
            while not await self._election.wait_for(LOOK_S):
                async with aclosing(self._more(found)) as batches:
                    async for batch in batches:
                        yield batch

    async def _more(self, found: Reader) -> AsyncGenerator[Batch, None]:
        """The entries that were committed since it was read last."""
        end = await found.stable_end(self._place.frames)
        async with aclosing(frames_of(found, self._place, self._read_to, end)) as frames:
            async for frame in frames:
                self._fold.take(frame)
                if self._fold.settled:
                    self._fold.catch_up()
                if entries := entries_of(frame):
                    yield entries
        self._read_to = max(end, self._read_to)

    async def _taken_over(self) -> AsyncGenerator[Batch, None]:
        fold, serial = self._fold, self._fold.end.serial
        opened, found = await self._take_over(fold if serial else None)
        if serial and found is not fold:
            raise LedgerDown(f"{self._place.frames.topic} is not what was followed; it is read anew")
        self._fold = found
        # The last one is this gateway's own entry of ownership.
        if found.end.serial > serial + 1:
            async with aclosing(self._last(serial + 1, found.end.serial)) as batches:
                async for batch in batches:
                    yield batch
        self._opened = opened

    async def _last(self, serial: int, last: int) -> AsyncGenerator[Batch, None]:
        """The entries of the frames that came between the last look and the opening."""
        topic = self._place.frames.topic
        try:
            async with aclosing(frames_up_to(self._place, (self._read_to, serial), last)) as frames:
                async for frame in frames:
                    if entries := entries_of(frame):
                        yield entries
        except (Trimmed, LedgerDamaged, KafkaError, OSError) as error:
            raise LedgerDown(f"{topic} cannot be read on from here ({error}); it is read anew") from error
