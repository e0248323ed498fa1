"""The embedded ledger: one append is one frame, one write and one sync, plus one sync per output file.

A compaction writes its snapshot concurrently with appends; only its frame is queued among them.
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
    """The implementation of `ports.Ledger` and `ports.Outputs` over one folder. Created by `LogLedgers.open`.

    Args: `guard` raises LedgerFenced when the folder is lost. `writing` and `reading` run one call at a time, in order.
    `due` is the set to which the ledger adds itself when `keep_up` has work. `open_streams` and `reserve` are shared by
    all ledgers.
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
        # Not the loop's default pool: fetches may occupy all of its threads, and appends must not wait for them.
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
        """Number of this opening; each opening has a higher number than the last."""
        return self._writer.segments.epoch

    @property
    def compacted_position(self) -> int:
        """Position up to which entries are compacted; 0 if there was no compaction."""
        return self._writer.segments.extent.position

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Implements the port's `Ledger.append`. Cancelling the caller does not stop an append that has begun.

        Raises ValueError when `outputs` contradict the catalog or the entries exceed a frame; nothing was written.
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
        # Registered before the caller's callback: the result is applied even if the caller no longer waits.
        written.add_done_callback(partial(self._written, bool(entries)))
        await asyncio.shield(written)
        return self._mark

    async def compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        """Implements the port's `Ledger.compact`; cancelling the caller does not stop it.

        Appends wait only for the compaction's frame, not while the entries and then the catalog are written.
        """
        await uncancelled(self._compact(position, snapshot))

    async def _compact(self, position: int, snapshot: AsyncIterable[bytes]) -> None:
        async with self._compacting:
            self.end.check()
            mark = await asyncio.to_thread(self._mark_at, position)
            file, snapshots = self._writer.begin_snapshot()
            taking = self._taking = SnapshotTaking(snapshots, self._catalog, self._writer.guarded, self._letting_go)
            try:
                # After a disk failure the files are left untouched.
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
        # The frame is durable, so the previous snapshot is no longer needed.
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
        """Checks an append, and starts it in the writer's thread; returns None if the append would change nothing."""
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
        """Implements the port's `Ledger.replay`: yields the entries as of the first request for a batch.

        Entries are read from the files and verified again. The `reading` executor reads some batches ahead. Raises
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
        """Implements the port's `Outputs.fetch` and verifies each range's SHA-256. Also raises LedgerFenced."""
        self.end.check()
        found = self._catalog.find(topic, partition, offset, max_rows, max_bytes)
        if not found:
            return []
        try:
            return await asyncio.to_thread(self._read, found)
        except FileNotFoundError as error:
            self._guard()  # raises LedgerFenced if the whole folder is gone
            # Raises OffsetTrimmed if the range was trimmed in the meantime.
            self._catalog.find(topic, partition, offset, max_rows, max_bytes)
            raise LedgerDamaged(f"{error.filename} is missing; put this file back from a copy") from error
        except OSError as error:
            raise LedgerDown(f"topic {topic} cannot be read from offset {offset} on: {error}") from error

    def _read(self, found: list[PublishedRange]) -> list[Chunk]:
        outputs = self._paths.outputs
        return [Chunk(held.first_offset, held.rows, read_range(self._disk, outputs, held.location)) for held in found]

    @property
    def kept_up(self) -> bool:
        """True while `keep_up` runs."""
        return self._keeping.locked()

    async def keep_up(self) -> None:
        """Syncs the witness and removes unneeded files; no effect after the ledger has ended."""
        async with self._keeping:
            if self.end.ending is not None:
                return
            try:
                await asyncio.to_thread(self._writer.witness.sync)
                await self._in_writer(self._writer.run_removals)
            except OSError as error:
                why = f"the witness {self._paths.witness} cannot be synced ({error}); open the ledger anew"
                self.end.write_beside(LedgerDown(why))
            if self._writer.garbage.waiting:  # a reader still uses some of these files
                self._due.add(self)

    async def close(self) -> None:
        """Finishes pending work, syncs the witness and closes the files. No effect when already closed.

        A compaction whose snapshot is incomplete is aborted with LedgerDown.
        """
        is_first = not self._letting_go.is_set()
        self._letting_go.set()
        async with self._compacting, self._one, self._keeping:
            if is_first:
                await self._in_writer(self._writer.close)

    def look(self) -> None:
        """Ends this ledger if its folder was moved, removed or replaced. Blocks on the disk; callable from any thread.

        Skipped during an append: the append checks the folder itself, and its error reports whether it was written.
        """
        if self._appending or self.end.ending is not None:
            return
        try:
            self._guard()
        except LedgerFenced as error:
            self.end.write_beside(error)

    def _in_writer(self, function: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._writing, function, *args)
