"""Writes the files of one open ledger, in its writer's thread: rows, then the frame that names them, then the witness.

Outcome of an append: complete once its frame is durable; nothing written if the disk was full; unknown after any other
error, which ends the ledger until it is opened again.
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
    """The writer of a ledger's files. All methods block; call one at a time unless a method permits any thread.

    Args: `guard` raises LedgerFenced when the folder is lost. `open_streams` and `reserve` are shared by all ledgers.
    Once `end` is set nothing more is written. Attributes: `garbage` holds the files to be removed; `witness` may be
    synced from any thread.
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
        self._full = reserve.released  # already reported to callers, which may now use the reserve
        self.garbage = Garbage(disk, paths.shard, paths.outputs)
        self._end = end

    def write(self, entries: list[bytes], plan: list[CatalogChange], ranges: list[WriteRange]) -> list[CatalogChange]:
        """Writes one append: first (1) its output files, synced, then (2) the frame, synced, then (3) the witness,
        not synced.

        Returns the plan with the locations of its ranges. The caller acknowledges the append after this returns. A
        crash between 1 and 2 leaves bytes that no frame names.
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
        """Writes the frame of a compaction, synced, then both slots of the witness, synced.

        The witness must not point into a segment that is removed next. `changes` are those of the catalog since it was
        written to the snapshot.
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
        """Returns a new file name and its snapshot writer; callable from any thread."""
        file = self._outputs.new_file()
        return file, SnapshotWriter(self._disk, self._paths.outputs, file)

    def guarded(self, work: Callable[[], T]) -> T:
        """Runs other work on the folder concurrently with appends;
        errors of this work end the ledger too. Callable from any
        thread.
        """
        with self._known_end(beside=True):
            self._guard()
            return work()

    def remove(self, files: Sequence[tuple[int, int]], needed_segment: int = 0) -> None:
        """Removes unreferenced output files and the segments before `needed_segment`, once no reader uses them."""
        self.garbage.add(self._outputs.forget(files), needed_segment)
        self.run_removals()

    def run_removals(self) -> None:
        """Removes pending files, but only while the folder is owned: a new owner's files may have the same names."""
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
        """Raises NoRoom once after another ledger filled the disk:
        the remaining space is for completes and releases only.
        """
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
        """Converts write errors: a full disk raises LedgerFull (nothing was written);
        any other error ends the ledger.
        """
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


SEGMENT_BYTES = 64 << 20  # the last segment is copied at each opening, and 64 MiB take a quarter of a second


class SegmentChain:
    """The segments that are needed since the last compaction.
    Writes to the last one and starts another when that is full.
    """

    def __init__(self, disk: Disk, folder: Path, scan: Scan, last: SegmentWriter) -> None:
        self._disk = disk
        self._folder = folder
        self._compacted = scan.compacted
        self._headers = [*scan.headers, last.header]
        self._last = last

    @property
    def epoch(self) -> int:
        """Number of this opening; each opening has a higher number than the last."""
        return self._last.header.epoch

    @property
    def end(self) -> End:
        """End of the last frame."""
        return self._last.end

    @property
    def extent(self) -> Extent:
        """The readable part of the ledger, as it is now."""
        return Extent(self._compacted, tuple(self._headers), self.end)

    def append(self, count: int, body: bytes) -> None:
        """Appends a frame, in a new segment if the last one is full. Raises NoRoom; effect unknown on OSError."""
        if self._last.end_after(len(body)) > SEGMENT_BYTES and self.end.offset > BLOCK_BYTES:
            self._begin_another()
        self._last.append(count, body)

    def needed_behind(self, position: int) -> SegmentHeader:
        """Returns the segment that contains the first entry after `position`; earlier segments are no longer needed
        then.

        Starts a new segment if the last one has entries up to `position`. Raises NoRoom, OSError.
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
        """Applies a compaction whose frame is durable; returns the previous compaction."""
        old, self._compacted = self._compacted, compacted
        self._headers = [header for header in self._headers if header.segment >= compacted.segment]
        return old

    def close(self) -> None:
        """Closes the segment file that is being written."""
        self._last.close()
