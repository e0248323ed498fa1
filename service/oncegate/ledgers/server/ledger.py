"""Implements the common part of open ledgers on servers: serialized appends, concurrent compaction, and endings."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Sequence
from contextlib import aclosing
from typing import ClassVar, Generic, TypeVar

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, OncegateError
from oncegate.core.lifecycle import EndCell, Event, end_of
from oncegate.ledgers.catalog import Catalog, CatalogChange, Location
from oncegate.ledgers.fold import Fold
from oncegate.ledgers.frames import Compacted
from oncegate.ledgers.snapshotting import PieceWriter, Places, SnapshotTaking
from oncegate.ledgers.uncancelled import uncancelled
from oncegate.ports import Chunk, History, Mark, OpenLedger, OutputChange, Replayed, Storage, TopicsElsewhere

F = TypeVar("F", bound=Fold)
T = TypeVar("T")


class RemoteLedger(ABC, Storage, Generic[F]):
    """A `ports.Ledger` on a server; a subclass implements writes, reads and deletions.

    `key`: the namespace's. `fold`: the replay state of the frames so far. An unknown outcome, a newer owner or
    damage ends the ledger, and every later call raises the same error.
    """

    fenced_by_appends = True
    # Maximum size of the entries of one append.
    ENTRIES_BYTES_MAX: ClassVar[int]

    def __init__(self, fold: F, key: bytes, topics: TopicsElsewhere) -> None:
        self.fold = self._fold = fold
        self.key = key
        self._topics_elsewhere = topics
        self.end = EndCell()
        # Acquired in this order: a compaction appends its frame, and `close` waits for maintenance last.
        self._compacting, self._one, self._keeping = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._letting_go = asyncio.Event()
        self._taking: SnapshotTaking | None = None
        self._replays = 0
        self._shortened_to = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def where(self) -> str:
        """Returns the topic or key of the ledger's frames, for messages."""

    def opened(self) -> OpenLedger:
        history = History(self.epoch, compacted=self.compacted_position)
        return OpenLedger(self, self.key, history, self.end, self, self._topics_elsewhere, self)

    @property
    def mark(self) -> Mark:
        return self._fold.mark

    @property
    def compacted_position(self) -> int:
        """Returns the position up to which entries were compacted, or 0 if none were."""
        return self._fold.compacted.position if self._fold.compacted else 0

    @property
    def _catalog(self) -> Catalog:
        return self._fold.catalog

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Implements the port's `Ledger.append`. Cancelling the caller does not stop it.

        Raises ValueError: `outputs` contradict the catalog, or the entries exceed `ENTRIES_BYTES_MAX`; nothing was
        written.
        """
        if sum(map(len, entries)) > self.ENTRIES_BYTES_MAX:
            raise ValueError(f"one append may have {self.ENTRIES_BYTES_MAX} bytes of entries")
        await uncancelled(self._append(list(entries), list(outputs)))
        return self.mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Implements the port's `Ledger.compact`. Cancelling the caller does not stop it.

        Appends wait at most for one piece of the snapshot, and for the frame that names the pieces.
        """
        await uncancelled(self._compact(position, snapshot))

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Yields entries as `Ledger.replay` does, and verifies them; entries appended meanwhile are not included."""
        self.end.check()
        self._replays += 1
        try:
            async with aclosing(self._replayed(from_position)) as batches:
                async for batch in batches:
                    yield batch
        except LedgerDamaged as error:
            await self._require_not_followed(error)
            raise
        finally:
            self._replays -= 1

    def end_beside(self, why: OncegateError) -> None:
        """Ends the ledger because of an error outside of appends.

        LedgerFenced takes effect only after the current append. The new owner's fence refuses that append, so its
        outcome is certain; ending the ledger earlier would leave it in doubt.
        """
        if not (isinstance(why, LedgerFenced) and self._one.locked()):
            self.end.write_beside(why)
        elif self._ending is None:
            self._ending = asyncio.create_task(self._end_once_free(why))

    async def _dying(self, writing: Awaitable[T], *, by_append: bool = False) -> T:
        """Waits for a write; LedgerDown, LedgerFenced and LedgerDamaged are raised, and all later calls fail with them.

        Only a failed append leaves an append in doubt. While a snapshot or a deletion runs, appends wait and have not
        begun. A fence is certain in both cases: it refuses every write of this owner.
        """
        try:
            return await writing
        except (LedgerFenced, LedgerDown, LedgerDamaged) as error:
            why = await self._end_of(error)
            self.end.write(end_of(why, beside=not (by_append or isinstance(why, LedgerFenced))), why)
            if why is error:
                raise
            raise why from error

    async def _end_of(self, error: OncegateError) -> OncegateError:
        """Returns the error with which the open ledger fails after a write raised `error`."""
        return error

    async def _end_once_free(self, why: OncegateError) -> None:
        async with self._one:
            self.end.write_beside(why)

    async def close(self) -> None:
        """Waits for calls in progress, then writes the rollback check and closes the connections. Idempotent.

        A compaction whose snapshot is incomplete is aborted: its call raises LedgerDown.
        """
        is_first = not self._letting_go.is_set()
        self._letting_go.set()
        async with self._compacting, self._one, self._keeping:
            if is_first:
                closed = LedgerFenced("this ledger was closed; nothing was written: open it anew")
                await self._let_go(self.end.write(Event.STOPPED, closed).error is closed)

    async def _compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        async with self._compacting:
            self.end.check()
            mark = self._fold.mark_at(position)
            self._taking = SnapshotTaking(self._pieces(), self._catalog, lambda work: work(), self._letting_go)
            try:
                places = await self._taking.write(snapshot, lambda: True)
                async with self._one:
                    self.end.check()
                    await self._replace(mark, places)
            finally:
                self._taking = None

    def _compacted(self, mark: Mark, places: tuple[Places, Places], states_from: int, key: bytes) -> Compacted:
        """Returns the change by which a snapshot replaces the entries up to `mark`. `key`: wrapped."""
        _, serial = self._fold.first_after(mark.position) or (0, self._fold.end.serial + 1)
        chain = self._fold.chain_before(serial) or self._fold.end.chain
        return Compacted(mark.position, mark.ledger, mark.chain, serial, chain, states_from, *places, key)

    def _changed(self, changes: Sequence[CatalogChange]) -> list[Location]:
        """Applies written changes; returns the locations that are no longer referenced."""
        if self._taking is not None:
            self._taking.changed(changes)
        return self._fold.apply(changes)

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Returns the number of this opening."""

    @abstractmethod
    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Returns rows as `Outputs.fetch` does."""

    @abstractmethod
    async def _append(self, entries: list[bytes], outputs: list[OutputChange]) -> None:
        """Writes one frame and its outputs atomically."""

    @abstractmethod
    def _pieces(self) -> PieceWriter:
        """Returns a writer of a snapshot's pieces."""

    @abstractmethod
    async def _replace(self, mark: Mark, places: tuple[Places, Places]) -> None:
        """Writes the frame that names the snapshot, which then replaces the entries up to `mark`."""

    @abstractmethod
    def _replayed(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Yields the entries at or after a position."""

    @abstractmethod
    async def _require_not_followed(self, damage: LedgerDamaged) -> None:
        """Raises LedgerFenced if a newer owner deleted the missing records; LedgerDown if that is unknown."""

    @abstractmethod
    async def keep_up(self) -> None:
        """Writes the rollback check, and deletes compacted records. Failures are retried at the next call."""

    @abstractmethod
    async def _let_go(self, alive: bool) -> None:
        """Closes the connections; if `alive`, first writes the rollback check. No other call is under way."""
