"""The embedded ledger: one append is one frame, one write and one sync, plus one sync per output file.

A compaction writes its snapshot beside the appends; only its frame waits its turn among them.
"""

import asyncio
import contextlib
import math
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from oncegate.core.errors import LedgerDamaged, LedgerDown, LedgerFenced, LedgerFull, OncegateError
from oncegate.ledgers.catalog import NOWHERE, Change, Location, PublishedRange, Wrote, change_of, located
from oncegate.ledgers.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log.files.frame_body import Body, Compacted, encode_body
from oncegate.ledgers.log.files.frames import BODY_BYTES_MAX, SegmentHeader
from oncegate.ledgers.log.files.garbage import Garbage
from oncegate.ledgers.log.files.outputs import OpenStreams, OutputWriter, RangeCounts, read_range
from oncegate.ledgers.log.files.segments import NoRoom, SegmentWriter
from oncegate.ledgers.log.files.snapshots import SnapshotWriter
from oncegate.ledgers.log.opening.read_ahead import read_ahead
from oncegate.ledgers.log.opening.recovery import Found, LedgerPaths, Owned
from oncegate.ledgers.log.opening.replay import Extent, mark_at, replayed
from oncegate.ledgers.log.reserve import Reserve
from oncegate.ledgers.snapshotting import Places, SnapshotTaking
from oncegate.ledgers.uncancelled import uncancelled
from oncegate.ports import Chunk, Mark, OutputChange, Replayed, WriteRange

SEGMENT_BYTES = 64 << 20  # the last segment is copied at each opening: 64 MiB are a quarter of a second
T = TypeVar("T")


class LogLedger:
    """Implements `ports.Ledger` and `ports.Outputs` over one folder. Made by `LogLedgers.open`.

    `guard` raises LedgerFenced when the folder is lost. `writer` and `reader` make one call at a time, in order.
    `due`: where it puts itself when something is left for `keep_up`. `open_streams`, `reserve`: of all ledgers.
    """

    def __init__(
        self,
        disk: Disk,
        paths: LedgerPaths,
        found: Found,
        owned: Owned,
        guard: Callable[[], None],
        writer: Executor,
        due: "set[LogLedger]",
        open_streams: OpenStreams,
        reserve: Reserve,
        reader: Executor,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._guard = guard
        self._catalog = found.scan.catalog
        self._compacted = found.scan.compacted
        self.predecessors = found.scan.predecessors
        self._range_counts = RangeCounts(self._catalog.locations())
        self._removals = Garbage(disk, paths.shard, paths.outputs)
        self._segment = owned.segment
        self._witness = owned.witness
        self._outputs = OutputWriter(disk, paths.outputs, owned.segment.header.epoch, open_streams)
        self._headers = [*found.scan.headers, owned.segment.header]
        self._mark = Mark(paths.ledger, found.mark.position, found.mark.chain)
        self._dead: OncegateError | None = None
        self._one = asyncio.Lock()
        self._compacting = asyncio.Lock()
        # Not the loop's pool: fetches may fill that, and appends must not wait for them.
        self._writer = writer
        self._reader = reader
        self._due = due
        self._reserve = reserve
        self._full = reserve.released  # whoever appends was told: from now on the reserve is for that
        self._keeping = asyncio.Lock()
        self._taking: SnapshotTaking | None = None
        self._letting_go = asyncio.Event()
        self._closed = threading.Event()

    @property
    def mark(self) -> Mark:
        """Implements the port's `Ledger.mark`."""
        return self._mark

    @property
    def epoch(self) -> int:
        """The number of this opening."""
        return self._segment.header.epoch

    @property
    def _extent(self) -> Extent:
        return Extent(self._compacted, tuple(self._headers), self._segment.end)

    @property
    def compacted_position(self) -> int:
        """The position up to which entries were compacted; 0 when none were."""
        return self._extent.position

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """Implements the port's `Ledger.append`. A cancelled caller does not stop it: it is done or refused, whole.

        ValueError: `outputs` contradict what is there, or the entries are larger than a frame; nothing was written.
        """
        plan = [change_of(output, lambda _: NOWHERE) for output in outputs]
        await self._one.acquire()
        try:
            self._require_alive()
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
            self._require_alive()
            mark = await asyncio.to_thread(self._mark_at, position)
            file = self._outputs.new_file()
            writer = SnapshotWriter(self._disk, self._paths.outputs, file)
            taking = self._taking = SnapshotTaking(writer, self._catalog, self._with_known_end, self._letting_go)
            try:
                # A disk that failed is left as it is.
                places = await taking.write(snapshot, lambda: self._dead is None)
                async with self._one:
                    self._require_alive()
                    await self._replace(mark, places, file)
            finally:
                self._taking = None

    async def _replace(self, mark: Mark, places: tuple[Places, Places], file: tuple[int, int]) -> None:
        try:
            compacted = await self._in_writer(self._write_compacted, mark, *places)
        except LedgerFull:
            self._writer.submit(self._remove, [file])
            raise
        self._adopt(compacted)

    def _mark_at(self, position: int) -> Mark:
        try:
            return mark_at(self._disk, self._paths.shard, self._extent, position)
        except OSError as error:
            self._dead = LedgerDown(f"the ledger in {self._paths.shard} cannot be read ({error}); open it anew")
            raise self._dead from error

    def _with_known_end(self, work: Callable[[], T]) -> T:
        with self._known_end():
            self._guard()
            return work()

    def _write_compacted(self, mark: Mark, state: Places, catalog: Places) -> Compacted:
        """In the writer's thread: the frame, synced; then the witness, so that it never names what is removed next."""
        assert self._taking is not None
        with self._known_end():
            self._guard()
            if self._segment.header.first_position <= mark.position:
                self._rotate()
            first = next(header for header, after in self._pairs() if after > mark.position + 1)
            numbers = (first.segment, first.first_position, first.previous_chain)
            at = (mark.ledger, mark.position, mark.chain)
            compacted = Compacted(*numbers, *at, state, self.predecessors, catalog)
            self._write_frame(0, encode_body(Body([], [compacted, *self._taking.changes_since])))
            self._witness.pin(self._segment.end)
        return compacted

    def _pairs(self) -> Iterator[tuple[SegmentHeader, float]]:
        """Each segment with the first position of the next; the last has none after it."""
        return zip(self._headers, [*(header.first_position for header in self._headers[1:]), math.inf], strict=True)

    def _adopt(self, compacted: Compacted) -> None:
        """The frame is durable: what it replaces is not needed any more."""
        old, self._compacted = self._compacted, compacted
        self._headers = [header for header in self._headers if header.segment >= compacted.segment]
        self._writer.submit(self._remove, sorted(old.files) if old else [], compacted.segment)
        self._due.add(self)

    def _remove(self, files: Sequence[tuple[int, int]], needed_segment: int = 0) -> None:
        self._removals.add(self._outputs.forget(files), needed_segment)
        self._run_removals()

    def _run_removals(self) -> None:
        """In the writer's thread, and only while the folder is ours: another's files have the same names."""
        if self._dead is None:
            with contextlib.suppress(LedgerFenced):
                self._guard()
                self._removals.run()

    def _begin(
        self, entries: Sequence[bytes], outputs: Sequence[OutputChange], plan: list[Change]
    ) -> "asyncio.Future[list[Change]] | None":
        """Check, and write in the writer's thread; None where nothing would change."""
        self._catalog.check(plan)
        if sum(map(len, entries)) > BODY_BYTES_MAX // 2:
            raise ValueError(f"one append may have {BODY_BYTES_MAX // 2} bytes of entries")
        if not entries and not any(map(self._catalog.changes_something, plan)):
            return None
        ranges = [output for output in outputs if isinstance(output, WriteRange)]
        return self._in_writer(self._write, list(entries), plan, ranges)

    def _written(self, has_entries: bool, written: "asyncio.Future[list[Change]]") -> None:
        self._one.release()
        self._due.add(self)
        if written.cancelled() or written.exception() is not None:
            return
        self._apply(written.result())
        if has_entries:
            end = self._segment.end
            self._mark = Mark(self._paths.ledger, end.position, end.chain[:8])

    def _write(self, entries: list[bytes], plan: list[Change], ranges: list[WriteRange]) -> list[Change]:
        """In the writer's thread: 1. output files, synced. 2. The frame, synced. 3. The witness. Then the answer.

        Nothing is acknowledged before 2. A crash between 1 and 2 leaves bytes that no frame names.
        """
        with self._known_end():
            self._guard()
            self._require_room()
            try:
                changes = located(plan, iter(self._outputs.write(ranges)))
                self._write_frame(len(entries), encode_body(Body(entries, changes)))
            except NoRoom:
                self._full = True
                self._reserve.release()
                raise
            self._outputs.settle()
            self._witness.see(self._segment.end)
        return changes

    def _require_room(self) -> None:
        """Raises NoRoom, once, where another ledger has found the disk full: what is left is kept for ends."""
        told, self._full = self._full, self._reserve.released
        if self._full and not told:
            raise NoRoom("what is left is kept for completes and releases")

    @contextmanager
    def _known_end(self) -> Iterator[None]:
        """No room: refused, and nothing was written. Any other error: this object is dead."""
        try:
            yield
        except NoRoom as error:
            raise LedgerFull(f"the disk below {self._paths.shard} is full ({error}); nothing was written") from error
        except LedgerFull:
            raise
        except LedgerFenced as error:
            self._dead = error
            raise
        except BaseException as error:
            self._dead = LedgerDown(
                f"the ledger in {self._paths.shard} failed at position {self._segment.end.position} ({error}); "
                "whether this was written is unknown until it is opened anew"
            )
            raise self._dead from error

    def _write_frame(self, count: int, body: bytes) -> None:
        try:
            if self._segment.end_after(len(body)) > SEGMENT_BYTES and self._segment.end.offset > BLOCK_BYTES:
                self._rotate()
            self._segment.append(count, body)
        except NoRoom:
            self._outputs.roll_back()
            raise

    def _rotate(self) -> None:
        header = self._segment.next_header()
        new = SegmentWriter(self._disk, self._paths.shard, header)
        self._segment.close()
        self._segment = new
        self._headers.append(header)

    def _apply(self, changes: list[Change]) -> None:
        released: list[Location] = []
        if self._taking is not None:
            self._taking.changed(changes)
        for change in changes:
            if isinstance(change, Wrote):
                self._range_counts.add(change.location)
            released += self._catalog.apply(change)
        gone = self._range_counts.release(released)
        if gone:
            self._writer.submit(self._remove, gone)

    async def replay(self, from_position: int) -> AsyncGenerator[Sequence[Replayed], None]:
        """Implements the port's `Ledger.replay`: the entries as of the first batch asked for.

        They come from the files and are verified again. A thread of its own reads some batches ahead.
        LedgerDamaged, OSError.
        """
        self._require_alive()
        with self._removals.reading():
            entries = replayed(self._disk, self._paths.shard, self._paths.outputs, self._extent, from_position)
            async with contextlib.aclosing(read_ahead(entries, lambda one: len(one.body), self._reader)) as batches:
                async for batch in batches:
                    yield batch

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """Implements the port's `Outputs.fetch`; each range's SHA-256 is verified. LedgerFenced too."""
        self._require_alive()
        found = self._catalog.find(topic, partition, offset, max_rows, max_bytes)
        if not found:
            return []
        try:
            return await asyncio.to_thread(self._read, found)
        except FileNotFoundError as error:
            self._guard()  # the whole folder may be gone
            self._catalog.find(
                topic, partition, offset, max_rows, max_bytes
            )  # OffsetTrimmed, if it was trimmed meanwhile
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
            if self._closed.is_set() or self._dead is not None:
                return
            try:
                await asyncio.to_thread(self._witness.sync)
                await self._in_writer(self._run_removals)
            except OSError as error:
                self._dead = LedgerDown(
                    f"the witness {self._paths.witness} cannot be synced ({error}); open the ledger anew"
                )
            if self._removals.waiting:  # somebody reads them
                self._due.add(self)

    async def close(self) -> None:
        """Finishes what was begun, but for a compaction whose snapshot is not whole: LedgerDown is raised to that one.

        Then syncs the witness and closes the files. No effect when it is closed.
        """
        self._letting_go.set()
        async with self._compacting, self._one, self._keeping:
            if not self._closed.is_set():
                self._closed.set()
                await self._in_writer(self._close_files)

    def _close_files(self) -> None:
        self._run_removals()
        if self._dead is None:
            self._dead = LedgerDown(f"the ledger in {self._paths.shard} was closed; nothing was written")
            with contextlib.suppress(OSError):  # it may lag
                self._witness.sync()
        for closing in (self._outputs.close, self._segment.close, self._witness.close):
            with contextlib.suppress(OSError):
                closing()

    def require_owner(self) -> None:
        """Raises LedgerFenced once the data folder has another owner or this ledger was closed; from any thread."""
        if self._closed.is_set():
            raise LedgerFenced("this ledger was closed; nothing was written: open it anew")
        self._guard()

    def _require_alive(self) -> None:
        if self._dead is not None:
            raise type(self._dead)(self._dead.detail)

    def _in_writer(self, function: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._writer, function, *args)
