"""Writes the files of one open ledger, in its writer's thread: rows, then the frame that names them, then the witness.

What an append leaves, whatever becomes of it: all of it, where the frame is durable; nothing, where the disk was full;
else it is unknown, and nothing more is written by this opening.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from oncegate.core.errors import LedgerDown, LedgerFenced, LedgerFull
from oncegate.core.lifecycle import EndCell, Event, end_of
from oncegate.ledgers.catalog import CatalogChange, located
from oncegate.ledgers.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log.files.frames import Body, Compacted, SegmentHeader, encode_body
from oncegate.ledgers.log.files.garbage import Garbage
from oncegate.ledgers.log.files.outputs import OpenStreams, OutputWriter
from oncegate.ledgers.log.files.segments import NoRoom, SegmentWriter
from oncegate.ledgers.log.files.snapshots import SnapshotWriter
from oncegate.ledgers.log.opening.recovery import Extent, Found, LedgerPaths, Owned
from oncegate.ledgers.log.opening.scan import Scan
from oncegate.ledgers.log.reserve import Reserve
from oncegate.ledgers.snapshotting import Places
from oncegate.ledgers.witness import End
from oncegate.ports import Mark, WriteRange

T = TypeVar("T")


class LogWriter:
    """Changes the files of a ledger. Its methods block; they are called one at a time, where nothing else is said.

    `guard` raises LedgerFenced when the folder is lost. `open_streams`, `reserve`: of all ledgers. `garbage`: what is
    to be removed. `witness`: synced from any thread. `end`: after it nothing is written.
    """

    def __init__(
        self,
        disk: Disk,
        paths: LedgerPaths,
        found: Found,
        owned: Owned,
        guard: Callable[[], None],
        open_streams: OpenStreams,
        reserve: Reserve,
        end: EndCell,
    ) -> None:
        self._disk = disk
        self._paths = paths
        self._guard = guard
        self._predecessors = found.scan.predecessors
        self.segments = SegmentChain(disk, paths.shard, found.scan, owned.segment)
        self._outputs = OutputWriter(disk, paths.outputs, self.segments.epoch, open_streams)
        self.witness = owned.witness
        self._reserve = reserve
        self._full = reserve.released  # whoever appends was told: from now on the reserve is for that
        self.garbage = Garbage(disk, paths.shard, paths.outputs)
        self._end = end

    def write(self, entries: list[bytes], plan: list[CatalogChange], ranges: list[WriteRange]) -> list[CatalogChange]:
        """Writes one append: 1. output files, synced. 2. The frame, synced. 3. The witness. Then the answer.

        Returns the plan with the locations of its ranges. Nothing is acknowledged before 2. A crash between 1 and 2
        leaves bytes that no frame names.
        """
        with self._known_end():
            self._guard()
            self._require_room()
            try:
                changes = located(plan, iter(self._outputs.write(ranges))) if ranges else plan
                self._write_frame(len(entries), encode_body(Body(entries, changes)))
            except NoRoom:
                self._full = True
                self._reserve.release()
                raise
            self._outputs.settle()
            self.witness.see(self.segments.end)
        return changes

    def write_compacted(
        self, mark: Mark, state: Places, catalog: Places, changes: Sequence[CatalogChange]
    ) -> Compacted:
        """Writes the frame of a compaction, synced; then the witness, so that it never names what is removed next.

        changes: of the catalog, since it was written down.
        """
        with self._known_end():
            self._guard()
            first = self.segments.needed_behind(mark.position)
            numbers = (first.segment, first.first_position, first.previous_chain)
            at = (mark.ledger, mark.position, mark.chain)
            compacted = Compacted(*numbers, *at, state, self._predecessors, catalog)
            self._write_frame(0, encode_body(Body([], [compacted, *changes])))
            self.witness.pin(self.segments.end)
        return compacted

    def begin_snapshot(self) -> tuple[tuple[int, int], SnapshotWriter]:
        """Returns a file that was never used, and what writes a snapshot into it; from any thread."""
        file = self._outputs.new_file()
        return file, SnapshotWriter(self._disk, self._paths.outputs, file)

    def guarded(self, work: Callable[[], T]) -> T:
        """Does other work on the folder, beside appends; its errors end the ledger as theirs do. From any thread."""
        with self._known_end(beside=True):
            self._guard()
            return work()

    def remove(self, files: Sequence[tuple[int, int]], needed_segment: int = 0) -> None:
        """Removes output files that nothing names any more, and the segments before one, once nobody reads them."""
        self.garbage.add(self._outputs.forget(files), needed_segment)
        self.run_removals()

    def run_removals(self) -> None:
        """Removes what can be; only while the folder is ours: another's files have the same names."""
        if self._end.ending is None:
            with contextlib.suppress(LedgerFenced):
                self._guard()
                self.garbage.run()

    def close(self) -> None:
        """Syncs the witness, which may lag, and closes every file."""
        self.run_removals()
        closed = LedgerFenced(f"the ledger in {self._paths.shard} was closed; nothing was written: open it anew")
        if self._end.write(Event.STOPPED, closed).error is closed:
            with contextlib.suppress(OSError):
                self.witness.sync()
        for closing in (self._outputs.close, self.segments.close, self.witness.close):
            with contextlib.suppress(OSError):
                closing()

    def _require_room(self) -> None:
        """Raises NoRoom, once, where another ledger has found the disk full: what is left is kept for ends."""
        told, self._full = self._full, self._reserve.released
        if self._full and not told:
            raise NoRoom("what is left is kept for completes and releases")

    def _write_frame(self, count: int, body: bytes) -> None:
        try:
            self.segments.append(count, body)
        except NoRoom:
            self._outputs.roll_back()
            raise

    @contextmanager
    def _known_end(self, *, beside: bool = False) -> Iterator[None]:
        """No room: refused, and nothing was written. Any other error: the ledger has ended."""
        try:
            yield
        except NoRoom as error:
            raise LedgerFull(f"the disk below {self._paths.shard} is full ({error}); nothing was written") from error
        except LedgerFull:
            raise
        except LedgerFenced as error:
            self._end.write(end_of(error, beside=beside), error)
            raise
        except BaseException as error:
            why = f"the ledger in {self._paths.shard} failed at position {self.segments.end.position} ({error})"
            down = LedgerDown(f"{why}; whether this was written is unknown until it is opened anew")
            self._end.write(end_of(down, beside=beside), down)
            raise down from error


SEGMENT_BYTES = 64 << 20  # the last segment is copied at each opening: 64 MiB are a quarter of a second


class SegmentChain:
    """Knows the segments from the last compaction on, writes the last one, and begins another when that is full.

    `append`, `needed_behind` and `close` block.
    """

    def __init__(self, disk: Disk, folder: Path, scan: Scan, last: SegmentWriter) -> None:
        self._disk = disk
        self._folder = folder
        self._compacted = scan.compacted
        self._headers = [*scan.headers, last.header]
        self._last = last

    @property
    def epoch(self) -> int:
        """The number of this opening."""
        return self._last.header.epoch

    @property
    def end(self) -> End:
        """Where the last frame ends."""
        return self._last.end

    @property
    def extent(self) -> Extent:
        """What of the ledger can be read now."""
        return Extent(self._compacted, tuple(self._headers), self.end)

    def append(self, count: int, body: bytes) -> None:
        """Appends a frame, to a segment that has room for it. NoRoom; after OSError it is unknown whether it is
        there."""
        if self._last.end_after(len(body)) > SEGMENT_BYTES and self.end.offset > BLOCK_BYTES:
            self._begin_another()
        self._last.append(count, body)

    def needed_behind(self, position: int) -> SegmentHeader:
        """Returns the segment that the entries behind `position` begin in, which none before them are needed for.

        Begins another where the last one has entries of both sides. NoRoom, OSError.
        """
        if self._last.header.first_position <= position:
            self._begin_another()
        return [header for header in self._headers if header.first_position <= position + 1][-1]

    def _begin_another(self) -> None:
        header = self._last.next_header()
        new = SegmentWriter(self._disk, self._folder, header)
        self._last.close()
        self._last = new
        self._headers.append(header)

    def adopt(self, compacted: Compacted) -> Compacted | None:
        """Begins with what a durable frame says of a compaction; returns the one before."""
        old, self._compacted = self._compacted, compacted
        self._headers = [header for header in self._headers if header.segment >= compacted.segment]
        return old

    def close(self) -> None:
        """Closes the file that is written."""
        self._last.close()
