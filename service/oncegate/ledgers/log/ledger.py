"""The embedded ledger: one append is one frame, one write and one sync, plus one sync per output file.

A compaction writes its snapshot beside the appends; only its frame waits its turn among them.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull
from oncegate.core.lifecycle import EndCell
from oncegate.ledgers.catalog import NOWHERE, CatalogChange, Location, PublishedRange, Wrote, change_of
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.files.frames import BODY_BYTES_MAX
from oncegate.ledgers.log.files.outputs import OpenStreams, RangeCounts, read_range
from oncegate.ledgers.log.opening.recovery import Found, LedgerPaths, Owned, mark_at, replayed
from oncegate.ledgers.log.opening.scan import read_ahead
from oncegate.ledgers.log.reserve import Reserve
from oncegate.ledgers.log.writer import LogWriter
from oncegate.ledgers.snapshotting import Places, SnapshotTaking
from oncegate.ledgers.uncancelled import uncancelled
from oncegate.ports import Chunk, Mark, OutputChange, Replayed, WriteRange

T = TypeVar("T")


class LogLedger:
    """Implements `ports.Ledger` and `ports.Outputs` over one folder. Made by `LogLedgers.open`.

    `guard` raises LedgerFenced when the folder is lost. `writing` and `reading` make one call at a time, in order.
    `due`: where it puts itself when something is left for `keep_up`. `open_streams`, `reserve`: of all ledgers.
    """

    def __init__(
        self,
        disk: Disk,
        paths: LedgerPaths,
        found: Found,
        owned: Owned,
        guard: Callable[[], None],
        writing: Executor,
        due: "set[LogLedger]",
        open_streams: OpenStreams,
        reserve: Reserve,
        reading: Executor,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._guard = guard
        self._catalog = found.scan.catalog
        self._range_counts = RangeCounts(self._catalog.locations())
        self.end = EndCell()
        self._writer = LogWriter(disk, paths, found, owned, guard, open_streams, reserve, self.end)
        self.predecessors = found.scan.predecessors
        self._mark = Mark(paths.ledger, found.mark.position, found.mark.chain)
        self._one = asyncio.Lock()
        self._compacting = asyncio.Lock()
        # Not the loop's pool: fetches may fill that, and appends must not wait for them.
        self._writing = writing
        self._reading = reading
        self._due = due
        self._keeping = asyncio.Lock()
        self._taking: SnapshotTaking | None = None
        self._letting_go = asyncio.Event()
        self._appending = False

    @property
    def mark(self) -> Mark:
        return self._mark

    @property
    def epoch(self) -> int:
        """The number of this opening."""
        return self._writer.segments.epoch

    @property
    def compacted_position(self) -> int:
        """The position up to which entries were compacted; 0 when none were."""
        return self._writer.segments.extent.position

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Implements the port's `Ledger.append`. A cancelled caller does not stop it: it is done or refused, whole.

        ValueError: `outputs` contradict what is there, or the entries are larger than a frame; nothing was written.
        """
        self._appending = True
        try:
            return await self._append(entries, outputs)
        finally:
            self._appending = False

    async def _append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        plan = [change_of(output, lambda _: NOWHERE) for output in outputs]
        await self._one.acquire()
        try:
            if self.end.ending is not None:
                self.end.check()
            written = self._begin(entries, outputs, plan)
        except BaseException:
            self._one.release()
            raise
        if written is None:
            self._one.release()
            return self._mark
        # Before the caller's own: what was written is taken note of, whether anybody still waits for it or not.
        written.add_done_callback(partial(self._written, bool(entries)))
        await asyncio.shield(written)
        return self._mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Implements the port's `Ledger.compact`; not stopped by its caller being cancelled.

        Appends wait for its frame, not for its entries nor for the catalog, which is written behind them.
        """
        await uncancelled(self._compact(position, snapshot))

    async def _compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        async with self._compacting:
            self.end.check()
            mark = await asyncio.to_thread(self._mark_at, position)
            file, snapshots = self._writer.begin_snapshot()
            taking = self._taking = SnapshotTaking(snapshots, self._catalog, self._writer.guarded, self._letting_go)
            try:
                # A disk that failed is left as it is.
                places = await taking.write(snapshot, lambda: self.end.ending is None)
                async with self._one:
                    self.end.check()
                    await self._replace(mark, places, taking.changes_since, file)
            finally:
                self._taking = None

    async def _replace(
        self, mark: Mark, places: tuple[Places, Places], changes: Sequence[CatalogChange], file: tuple[int, int]
    ) -> None:
        try:
            compacted = await self._in_writer(self._writer.write_compacted, mark, *places, changes)
        except LedgerFull:
            self._writing.submit(self._writer.remove, [file])
            raise
        # The frame is durable: what it replaces is not needed any more.
        old = self._writer.segments.adopt(compacted)
        self._writing.submit(self._writer.remove, sorted(old.files) if old else [], compacted.segment)
        self._due.add(self)

    def _mark_at(self, position: int) -> Mark:
        try:
            return mark_at(self._disk, self._paths.shard, self._writer.segments.extent, position)
        except OSError as error:
            down = LedgerDown(f"the ledger in {self._paths.shard} cannot be read ({error}); open it anew")
            self.end.write_beside(down)
            raise down from error

    def _begin(
        self, entries: Sequence[bytes], outputs: Sequence[OutputChange], plan: list[CatalogChange]
    ) -> "asyncio.Future[list[CatalogChange]] | None":
        """Check, and write in the writer's thread; None where nothing would change."""
        if plan:
            self._catalog.check(plan)
        if sum(map(len, entries)) > BODY_BYTES_MAX // 2:
            raise ValueError(f"one append may have {BODY_BYTES_MAX // 2} bytes of entries")
        if not entries and not any(map(self._catalog.changes_something, plan)):
            return None
        ranges = [output for output in outputs if isinstance(output, WriteRange)] if outputs else []
        return self._in_writer(self._writer.write, list(entries), plan, ranges)

    def _written(self, has_entries: bool, written: "asyncio.Future[list[CatalogChange]]") -> None:
        self._one.release()
        self._due.add(self)
        if written.cancelled() or written.exception() is not None:
            return
        self._apply(written.result())
        if has_entries:
            end = self._writer.segments.end
            self._mark = Mark(self._paths.ledger, end.position, end.chain[:8])

    def _apply(self, changes: list[CatalogChange]) -> None:
        released: list[Location] = []
        if self._taking is not None:
            self._taking.changed(changes)
        for change in changes:
            if isinstance(change, Wrote):
                self._range_counts.add(change.location)
            released += self._catalog.apply(change)
        gone = self._range_counts.release(released)
        if gone:
            self._writing.submit(self._writer.remove, gone)

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Implements the port's `Ledger.replay`: the entries as of the first batch asked for.

        They come from the files and are verified again. A thread of its own reads some batches ahead.
        LedgerDamaged, OSError.
        """
        self.end.check()
        with self._writer.garbage.reading():
            extent = self._writer.segments.extent
            entries = replayed(self._disk, self._paths.shard, self._paths.outputs, extent, from_position)
            async with aclosing(read_ahead(entries, lambda one: len(one.body), self._reading)) as batches:
                async for batch in batches:
                    yield batch

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`; each range's SHA-256 is verified. LedgerFenced too."""
        self.end.check()
        found = self._catalog.find(topic, partition, offset, max_rows, max_bytes)
        if not found:
            return []
        try:
            return await asyncio.to_thread(self._read, found)
        except FileNotFoundError as error:
            self._guard()  # the whole folder may be gone
            # OffsetTrimmed, if it was trimmed meanwhile.
            self._catalog.find(topic, partition, offset, max_rows, max_bytes)
            raise LedgerDamaged(f"{error.filename} is missing; put this file back from a copy") from error
        except OSError as error:
            raise LedgerDown(f"topic {topic} cannot be read from offset {offset} on: {error}") from error

    def _read(self, found: list[PublishedRange]) -> list[Chunk]:
        outputs = self._paths.outputs
        return [Chunk(held.first_offset, held.rows, read_range(self._disk, outputs, held.location)) for held in found]

    @property
    def kept_up(self) -> bool:
        """Whether `keep_up` is under way."""
        return self._keeping.locked()

    async def keep_up(self) -> None:
        """Syncs the witness and removes what nobody needs any more; no effect once it is closed."""
        async with self._keeping:
            if self.end.ending is not None:
                return
            try:
                await asyncio.to_thread(self._writer.witness.sync)
                await self._in_writer(self._writer.run_removals)
            except OSError as error:
                why = f"the witness {self._paths.witness} cannot be synced ({error}); open the ledger anew"
                self.end.write_beside(LedgerDown(why))
            if self._writer.garbage.waiting:  # somebody reads them
                self._due.add(self)

    async def close(self) -> None:
        """Finishes what was begun, but for a compaction whose snapshot is not whole: LedgerDown is raised to that one.

        Then syncs the witness and closes the files. No effect when it is closed.
        """
        is_first = not self._letting_go.is_set()
        self._letting_go.set()
        async with self._compacting, self._one, self._keeping:
            if is_first:
                await self._in_writer(self._writer.close)

    def look(self) -> None:
        """Ends this ledger where its folder is lost; waits for the disk, from any thread.

        Not while an append is under way, which looks itself, and whose end says whether it was written.
        """
        if self._appending or self.end.ending is not None:
            return
        try:
            self._guard()
        except LedgerFenced as error:
            self.end.write_beside(error)

    def _in_writer(self, function: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._writing, function, *args)
