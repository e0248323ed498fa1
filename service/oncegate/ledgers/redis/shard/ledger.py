"""Implements the ledger on Redis: an append is one script that writes a frame and its rows."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.ledgers.catalog import NOWHERE, Location, change_of, located
from oncegate.ledgers.redis.connection import Lost, OtherServer, Refused, Unreachable, unusable
from oncegate.ledgers.redis.server import Evicts, NoTopics
from oncegate.ledgers.redis.shard.head import RedisPlace
from oncegate.ledgers.redis.shard.opening import Opened
from oncegate.ledgers.redis.shard.reading import Fold, StreamReader, id_of, location
from oncegate.ledgers.server.ledger import RemoteLedger
from oncegate.ledgers.server.replay import Pieces, replayed
from oncegate.ledgers.snapshotting import Places
from oncegate.ports import Chunk, Mark, OutputChange, Replayed, TopicsElsewhere, WriteRange

# Rows deleted per script, since a script blocks the server.
DROPPED_AT_ONCE = 1_000


class RedisLedger(RemoteLedger[Fold]):
    """Implements `ports.Ledger` and `ports.Outputs` on the keys of one namespace. Created by `RedisLedgers.open`."""

    # Below Redis's limit of 512 MiB per argument, since memory holds several copies of a frame.
    ENTRIES_BYTES_MAX = 256 << 20

    def __init__(self, place: RedisPlace, opened: Opened) -> None:
        topics = TopicsElsewhere(NoTopics() if place.address.claims_only else None)
        super().__init__(opened.writer.fold, opened.key, topics)
        self._place = place
        self._writer = opened.writer
        self._reading = opened.reading
        self._witness = opened.witness
        self._fence = opened.fence
        # Ids of unreferenced rows; deleted with the next frame, or by maintenance.
        self._gone = [id_of(at) for at in self._fold.released]
        self._fold.released.clear()
        self._away: LedgerDown | None = None

    @property
    def where(self) -> str:
        return self._place.where

    @property
    def epoch(self) -> int:
        """Returns the fence of this opening."""
        return self._fence

    def durability(self) -> str:
        """Describes the durability of appends, according to the server's last INFO and CONFIG GET."""
        server, address = self._reading.server, self._place.address
        unseen = "; NO WITNESS: what the server loses while this gateway does not run is seen by nobody"
        durability = "" if server is None else server.durability(address.wait_replicas)
        return durability + unseen * address.no_witness

    def free_bytes(self) -> tuple[int, int]:
        """Returns the server's free and total memory in bytes, according to its last INFO."""
        server = self._reading.server
        return (1, 1) if server is None else server.room_bytes

    async def _append(self, entries: list[bytes], outputs: list[OutputChange]) -> None:
        async with self._one:
            self.end.check()
            plan = [change_of(output, lambda _: NOWHERE) for output in outputs]
            self._catalog.check(plan)
            if not entries and not any(map(self._catalog.changes_something, plan)):
                return
            ranges = [output for output in outputs if isinstance(output, WriteRange)]
            serial = self._fold.end.serial + 1
            places = (location(f"{serial}-{number}", one.data, one.sha256) for number, one in enumerate(ranges, 1))
            changes = located(plan, places)
            gone = self._gone[:DROPPED_AT_ONCE]
            rows = [one.data for one in ranges]
            await self._dying(self._writer.write(entries, changes, rows, gone), by_append=True)
            self._gone[: len(gone)] = []
            self._gone += [id_of(at) for at in self._changed(changes)]
            await self._dying(self._witness.see(self._fold.end), by_append=True)

    def _pieces(self) -> Pieces:
        return Pieces(self._write_piece)

    async def _write_piece(self, data: bytes) -> Location:
        async with self._one:
            self.end.check()
            return location(await self._dying(self._writer.write_piece(data)), data)

    async def _replace(self, mark: Mark, places: tuple[Places, Places]) -> None:
        assert self._taking is not None
        fold, since = self._fold, self._taking.changes_since
        states_from = min((at.epoch for several in places for at in several), default=0)
        compacted = self._compacted(mark, places, states_from, self._place.keys.wrap(self.key))
        # All of them: the saved catalog does not include these rows.
        gone = list(self._gone)
        await self._dying(self._writer.write((), [compacted, *since], (), gone))
        self._gone[: len(gone)] = []
        fold.adopt(compacted, fold.end.serial)
        await self._dying(self._witness.see(fold.end))

    def _replayed(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        return replayed(StreamReader(self._reading, self._place), self._fold, from_position)

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns rows as `Outputs.fetch` does, verifying each range's SHA-256. Raises LedgerFenced, LedgerDown too."""
        self.end.check()
        reader = StreamReader(self._reading, self._place)
        try:
            return await reader.rows(self._catalog, (topic, partition, offset, max_rows, max_bytes))
        except LedgerDamaged as error:
            await self._require_not_followed(error)
            raise

    async def _require_not_followed(self, damage: LedgerDamaged) -> None:
        try:
            await self._writer.look(self._reading)
        except (LedgerFenced, LedgerDamaged) as error:
            self.end_beside(error)
            raise
        except (Refused, Unreachable, Lost) as error:
            raise LedgerDown(f"{damage.detail}, unless another gateway owns it now: {error}; open it anew") from error

    async def keep_up(self) -> None:
        """Checks the server and the head, syncs the rollback check, and deletes unreferenced and compacted records.

        Failures are retried at the next call.
        """
        async with self._keeping:
            if self.end.ending is not None:
                return
            try:
                await self._look()
                self._away = None
                await self._witness.sync()
                await self._shorten()
            except OtherServer as error:
                self.end_beside(LedgerDown(f"{error}; it is read anew"))
            except (Refused, Unreachable, Lost) as error:
                if isinstance(error.__cause__, Evicts):
                    self.end_beside(LedgerDown(f"{error}; it is read anew"))
                self._away = unusable(self._place.address, error)
            except LedgerFull:
                pass  # the deletions are retried at the next call
            except (LedgerFenced, LedgerDown, LedgerDamaged) as error:
                self.end_beside(error)

    async def _look(self) -> None:
        """Checks the server and the head; retries once if the connection was lost, since it may have been idle."""
        try:
            await self._reading.look()
        except Lost as error:
            if isinstance(error.__cause__, TimeoutError):
                raise
            await self._reading.look()
        await self._writer.look(self._reading)

    def away(self) -> LedgerDown | None:
        """Returns the error of the last `keep_up` if the server could not be used, otherwise None."""
        return self._away

    async def _shorten(self) -> None:
        """Deletes unreferenced rows, and the records that a compaction by this owner has replaced."""
        while self._gone:
            async with self._one:
                self.end.check()
                some = self._gone[:DROPPED_AT_ONCE]
                await self._dying(self._writer.drop(some))
                self._gone[: len(some)] = []
        compacted = self._fold.compacted
        if compacted is None or compacted.position <= self._shortened_to or self._replays:
            return
        async with self._one:
            self.end.check()
            await self._dying(self._writer.trim(self._place.frames, f"{self._fold.ledger_from}-0"))
            await self._dying(self._writer.trim(self._place.states, f"{compacted.states_from}-0"))
        self._shortened_to = compacted.position

    async def _let_go(self, alive: bool) -> None:
        with suppress(LedgerDown):
            await self._witness.close()
        await self._writer.close()
        await self._reading.close()
