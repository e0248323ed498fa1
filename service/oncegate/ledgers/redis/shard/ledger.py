"""The ledger on Redis: one append is one script, of a frame and the rows beside it."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Sequence
from contextlib import aclosing, suppress
from typing import TypeVar

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull, OncegateError
from oncegate.ledgers.catalog import NOWHERE, change_of, located
from oncegate.ledgers.frames import Collected
from oncegate.ledgers.redis.connection import Lost, OtherServer, Refused, Unreachable
from oncegate.ledgers.redis.server import Evicts
from oncegate.ledgers.redis.shard.opening import Opened
from oncegate.ledgers.redis.shard.pieces import StreamPieces
from oncegate.ledgers.redis.shard.place import RedisPlace
from oncegate.ledgers.redis.shard.reading import id_of, location
from oncegate.ledgers.redis.shard.replay import replayed
from oncegate.ledgers.redis.shard.rows import rows_of
from oncegate.ledgers.snapshotting import Places, SnapshotTaking
from oncegate.ledgers.uncancelled import uncancelled
from oncegate.ports import Chunk, Mark, OutputChange, Replayed, WriteRange

# Of entries in one append: a server takes arguments of 512 MiB, and all of a frame is in memory several times.
ENTRIES_BYTES_MAX = 256 << 20
# Deleted by one script, which the server does nothing beside.
DROPPED_AT_ONCE = 1_000
T = TypeVar("T")


class RedisLedger:
    """Implements `ports.Ledger` and `ports.Outputs` over the keys of one namespace. Made by `RedisLedgers.open`."""

    def __init__(self, place: RedisPlace, opened: Opened) -> None:
        self._place = place
        self._key = opened.key
        self._writer = opened.writer
        self._reading = opened.reading
        self._witness = opened.witness
        self._fold = opened.writer.fold
        self._catalog = self._fold.catalog
        self.epoch = opened.fence
        self._dead: OncegateError | None = None
        self._closed = False
        self._one, self._compacting, self._keeping = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._letting_go = asyncio.Event()
        self._taking: SnapshotTaking | None = None
        self._replays = 0
        self._shortened_to = 0
        # Rows that nothing names any more: they go with the next frame, or by the upkeep.
        self._gone = [id_of(at) for at in self._fold.released]
        self._fold.released.clear()

    @property
    def mark(self) -> Mark:
        """Implements the port's `Ledger.mark`."""
        return self._fold.mark

    @property
    def compacted_position(self) -> int:
        """The position up to which entries were compacted; 0 when none were."""
        return self._fold.collected.position if self._fold.collected else 0

    @property
    def durability(self) -> str:
        """What an acknowledged append outlives, as the server said last."""
        server = self._reading.server
        return "" if server is None else server.durability(self._place.address.wait_replicas)

    def free_bytes(self) -> tuple[int, int]:
        """The memory that the server may still use, as it said last, and all of it."""
        server = self._reading.server
        return (1, 1) if server is None else server.room_bytes

    def require_owner(self) -> None:
        """Raises LedgerFenced once a newer owner was met, or this ledger was closed; from any thread."""
        if isinstance(self._dead, LedgerFenced):
            raise LedgerFenced(self._dead.detail)
        if self._closed:
            raise LedgerFenced("this ledger was closed; nothing was written: open it anew")

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Implements the port's `Ledger.append`. A cancelled caller does not stop it: it is done or refused, whole.

        ValueError: `outputs` contradict what is there, or the entries are larger than a frame; nothing was written.
        """
        if sum(map(len, entries)) > ENTRIES_BYTES_MAX:
            raise ValueError(f"one append may have {ENTRIES_BYTES_MAX} bytes of entries")
        await uncancelled(self._append(list(entries), list(outputs)))
        return self.mark

    async def _append(self, entries: list[bytes], outputs: list[OutputChange]) -> None:
        async with self._one:
            self._require_alive()
            plan = [change_of(output, lambda _: NOWHERE) for output in outputs]
            self._catalog.check(plan)
            if not entries and not any(map(self._catalog.changes_something, plan)):
                return
            ranges = [output for output in outputs if isinstance(output, WriteRange)]
            serial = self._fold.end.serial + 1
            places = (location(f"{serial}-{number}", one.data, one.sha256) for number, one in enumerate(ranges, 1))
            changes = located(plan, places)
            gone = self._gone[:DROPPED_AT_ONCE]
            await self._dying(self._writer.write(entries, changes, [one.data for one in ranges], gone))
            if self._taking is not None:
                self._taking.changed(changes)
            self._gone[: len(gone)] = []
            self._gone += [id_of(at) for at in self._fold.apply(changes)]
            await self._dying(self._witness.see(self._fold.end))

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Implements the port's `Ledger.compact`; not stopped by its caller being cancelled.

        Appends wait for one piece of the snapshot at most, and for the frame that names them.
        """
        await uncancelled(self._compact(position, snapshot))

    async def _compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        async with self._compacting:
            self._require_alive()
            mark = self._fold.mark_at(position)
            pieces = StreamPieces(self._write_piece)
            self._taking = SnapshotTaking(pieces, self._catalog, lambda work: work(), self._letting_go)
            try:
                places = await self._taking.write(snapshot, lambda: True)
                async with self._one:
                    self._require_alive()
                    await self._replace(mark, places)
            finally:
                self._taking = None

    async def _write_piece(self, data: bytes) -> str:
        async with self._one:
            self._require_alive()
            return await self._dying(self._writer.write_piece(data))

    async def _replace(self, mark: Mark, places: tuple[Places, Places]) -> None:
        """Writes the frame that names the snapshot; from then on it stands in place of the entries."""
        assert self._taking is not None
        fold, since = self._fold, self._taking.changes_since
        _, serial = fold.first_after(mark.position) or (0, fold.end.serial + 1)
        chain = fold.chain_before(serial) or fold.end.chain
        pieces = [at.epoch for several in places for at in several]
        key = self._place.keys.wrap(self._key)
        at = (mark.position, mark.ledger, mark.chain)
        collected = Collected(*at, serial, chain, min(pieces, default=0), *places, key)
        # All of it: the catalog that is saved does not know of these.
        gone = list(self._gone)
        await self._dying(self._writer.write((), [collected, *since], (), gone))
        self._gone[: len(gone)] = []
        fold.adopt(collected, fold.end.serial)
        await self._dying(self._witness.see(fold.end))

    async def _dying(self, writing: Awaitable[T]) -> T:
        """Waits for a write; after an end that nobody knows, or another owner's, this ledger is dead."""
        try:
            return await writing
        except (LedgerFenced, LedgerDown, LedgerDamaged) as error:
            self.end(error)
            raise

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Implements the port's `Ledger.replay`: the entries as of the first batch asked for, verified again."""
        self._require_alive()
        self._replays += 1
        try:
            async with aclosing(replayed(self._reading, self._place, self._fold, from_position)) as batches:
                async for batch in batches:
                    yield batch
        except LedgerDamaged:
            await self._require_unfollowed()
            raise
        finally:
            self._replays -= 1

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`; each range's SHA-256 is verified. LedgerFenced, LedgerDown too."""
        self._require_alive()
        asked = (topic, partition, offset, max_rows, max_bytes)
        try:
            return await rows_of(self._reading, self._place, self._catalog, asked)
        except LedgerDamaged:
            await self._require_unfollowed()
            raise

    async def _require_unfollowed(self) -> None:
        """Raises LedgerFenced where what is missing was deleted by a newer owner, who has replaced it; LedgerDown."""
        try:
            await self._writer.look(self._reading)
        except (LedgerFenced, LedgerDamaged) as error:
            self.end(error)
            raise
        except (Refused, Unreachable, Lost) as error:
            raise LedgerDown(f"{self._place.head} cannot be read: {error}; open it anew") from error

    async def keep_up(self) -> None:
        """Looks at the server, syncs the witness, and deletes what nothing names; what fails is done the next time."""
        async with self._keeping:
            if self._closed or self._dead is not None:
                return
            try:
                await self._reading.look()
                await self._writer.look(self._reading)
                await self._witness.sync()
                await self._shorten()
            except OtherServer as error:
                self.end(LedgerDown(f"{error}; it is read anew"))
            except (Refused, Unreachable, Lost, LedgerFull) as error:
                # What else it is appends tell, and what is to be deleted waits.
                if isinstance(error.__cause__, Evicts):
                    self.end(LedgerDown(f"{error}; it is read anew"))
            except (LedgerFenced, LedgerDown, LedgerDamaged) as error:
                self.end(error)

    def end(self, why: OncegateError) -> None:
        """Takes nothing more: the next call is told why."""
        self._dead = self._dead or why

    async def _shorten(self) -> None:
        """Every deletion is by the owner, behind a frame that it has written."""
        while self._gone:
            async with self._one:
                self._require_alive()
                some = self._gone[:DROPPED_AT_ONCE]
                await self._dying(self._writer.drop(some))
                self._gone[: len(some)] = []
        collected = self._fold.collected
        if collected is None or collected.position <= self._shortened_to or self._replays:
            return
        async with self._one:
            self._require_alive()
            await self._dying(self._writer.trim(self._place.frames, f"{self._fold.ledger_from}-0"))
            await self._dying(self._writer.trim(self._place.states, f"{collected.states_from}-0"))
        self._shortened_to = collected.position

    async def close(self) -> None:
        """Finishes what was begun, but for a compaction whose snapshot is not whole: LedgerDown is raised to that one.

        No effect when it is closed.
        """
        self._letting_go.set()
        async with self._compacting, self._one, self._keeping:
            if self._closed:
                return
            self._closed = True
            self._dead = self._dead or LedgerDown("the ledger was closed; nothing was written")
            with suppress(LedgerDown):
                await self._witness.close()
            await self._writer.close()
            await self._reading.close()

    def _require_alive(self) -> None:
        if self._dead is not None:
            raise type(self._dead)(self._dead.detail)
