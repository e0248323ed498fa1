"""Applies the frames of a ledger in order, for an opening or a dump, and reads entries ahead in a thread.

A ledger whose first segments were compacted begins where its last `Compacted` names: exactly that segment, first
position and chain. Earlier segments that still exist were kept by a crash or a backup.

Another thread reads and verifies entries some batches ahead of the one that applies them.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Catalog, Location, Wrote
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.files.frames import NO_LEDGER, AnyChange, Body, Compacted, SegmentHeader, decode_body
from oncegate.ledgers.log.files.segments import Frame, Walk, segment_path
from oncegate.ledgers.log.files.snapshots import read_snapshot
from oncegate.ports import Mark


def frame_body(frame: Frame) -> Body:
    """Decodes a frame's body. Raises LedgerDamaged if a verified frame has an unknown format."""
    try:
        body = decode_body(frame.body)
        if len(body.entries) != frame.header.count:
            raise ValueError(f"{len(body.entries)} entries instead of {frame.header.count}")
    except ValueError as error:
        raise LedgerDamaged(
            f"segment {frame.segment.segment}, entry {frame.header.first_position}: not of a format that this version "
            f"reads ({error}); nothing was changed, open it with the version that wrote it"
        ) from error
    return body


def frame_mark(frame: Frame) -> Mark:
    """Returns the ledger position (ledger id, position and hash chain) of a frame's last entry."""
    return Mark(frame.segment.ledger, frame.header.last_position, frame.header.chain[:8])


class Scan:
    """Replay state of a log ledger, built from its frames. Complete once `over` was exhausted without LedgerDamaged.

    `mark`: ledger position of the last entry, or None. `named`: every output file that a frame ever named.
    """

    def __init__(self, disk: Disk, folder: Path, outputs: Path) -> None:
        """`folder` holds the segments; catalogs are read from `outputs`."""
        self._disk = disk
        self._folder = folder
        self._outputs = outputs
        self._known = False  # whether the catalog includes all changes before this frame
        # The error that made a compaction's catalog unreadable.
        self._unread: LedgerDamaged | None = None
        self.catalog = Catalog()
        self.compacted: Compacted | None = None
        self.mark: Mark | None = None
        self.named: set[tuple[int, int]] = set()
        self.headers: list[SegmentHeader] = []

    def over(self, walk: Walk) -> Iterator[tuple[Frame, Body]]:
        """Applies the frames in order, and yields each with its body once it is applied."""
        for frame in walk:
            self._known = self._known or walk.headers[0].segment == 1
            body = frame_body(frame)
            for change in body.changes:
                self._take(change)
            if frame.header.count:
                self.mark = frame_mark(frame)
            yield frame, body
        self.headers = self._needed(walk.headers)
        if self._unread is not None:
            raise self._unread
        if self.mark is None and self.compacted:
            self.mark = self.compacted.mark

    def _take(self, change: AnyChange) -> None:
        if isinstance(change, Compacted):
            self.compacted = change
            self.named |= change.files
            self._read_catalog(change)
            return
        if isinstance(change, Wrote):
            self.named.add(change.location.file)
        if self._known:
            self.catalog.apply(change)

    def _read_catalog(self, compacted: Compacted) -> None:
        """Replaces the catalog with the one that a compaction wrote.
        A missing one is no error if a later compaction has replaced it.
        """
        self.catalog, self._known, self._unread = Catalog(), True, None
        try:
            for piece in read_snapshot(self._disk, self._outputs, compacted.catalog):
                self._take_piece(piece, compacted)
        except LedgerDamaged as error:
            self._known, self._unread = False, error
        self.named |= self.catalog.files()

    def _take_piece(self, piece: bytes, compacted: Compacted) -> None:
        try:
            self.catalog.take(piece)
        except ValueError as error:
            raise LedgerDamaged(
                f"the catalog of the compaction up to {compacted.position} is not of a format that this version reads "
                f"({error}); nothing was changed, open it with the version that wrote it"
            ) from error

    def _needed(self, headers: list[SegmentHeader]) -> list[SegmentHeader]:
        """Returns the segments that are needed since the last compaction.
        Raises LedgerDamaged if they are incomplete.
        """
        first, compacted = headers[0].segment, self.compacted
        begin = compacted.segment if compacted else 1
        if first > begin:
            raise LedgerDamaged(
                f"{segment_path(self._folder, first - 1)} is missing; put it back from a copy, nothing was changed"
            )
        needed = [header for header in headers if header.segment >= begin]
        if compacted and (needed[0].first_position, needed[0].previous_chain) != (
            compacted.first_position,
            compacted.previous_chain,
        ):
            raise LedgerDamaged(
                f"{segment_path(self._folder, begin)} does not begin where the compaction of the entries up to "
                f"{compacted.position} says; nothing was changed, put a whole copy back"
            )
        return needed

    @property
    def predecessors(self) -> tuple[bytes, ...]:
        """The previous ids of the ledger, oldest first."""
        before = self.compacted.predecessors if self.compacted else ()
        later = [header.predecessor for header in self.headers if header.predecessor not in (NO_LEDGER, *before)]
        return (*before, *later)

    def locations(self) -> Iterator[Location]:
        """Yields every location still needed: waiting and published ranges, and the snapshot."""
        yield from self.catalog.locations()
        yield from self.compacted.locations if self.compacted else ()


T = TypeVar("T")
Batch = tuple[list[T], bool]
# Size of a batch, large enough to make the handover between threads negligible; and the most batches read ahead.
BATCH_BYTES = 4 << 20
BATCHES_AHEAD = 4


async def read_ahead(
    items: Generator[T, None, None], size_bytes: Callable[[T], int], thread: Executor
) -> AsyncGenerator[list[T], None]:
    """Yields the items of `items` in order, in batches of `BATCH_BYTES`, read ahead by `thread`.

    An error of `items` is raised after the items before it. When this generator ends, by exhaustion, error or `aclose`,
    `items` is closed and `thread` no longer uses it. `thread` must run one call at a time, in order.
    """
    loop = asyncio.get_running_loop()
    batches = _batches(items, size_bytes)
    ahead: deque[asyncio.Future[Batch[T] | None]] = deque()
    try:
        # The first batch alone: a small ledger has no other, and startup may open a thousand of them.
        ahead.append(loop.run_in_executor(thread, next, batches, None))
        while ahead and (batch := await ahead[0]) is not None:
            ahead.popleft()
            found, is_last = batch
            while not is_last and len(ahead) < BATCHES_AHEAD:
                ahead.append(loop.run_in_executor(thread, next, batches, None))
            yield found
    finally:
        if ahead:
            await _leave(ahead, batches, thread)
        else:
            batches.close()


async def _leave(
    ahead: "deque[asyncio.Future[Batch[T] | None]]", batches: Generator[Batch[T], None, None], thread: Executor
) -> None:
    """Aborts a read-ahead, and waits until the thread has read its current batch."""
    for waiting in ahead:
        waiting.cancel()
    try:
        await asyncio.get_running_loop().run_in_executor(thread, batches.close)
    finally:
        for ended in ahead:
            if not ended.cancelled():
                ended.exception()  # retrieved, so that asyncio does not log it


def _batches(items: Generator[T, None, None], size_bytes: Callable[[T], int]) -> Generator[Batch[T], None, None]:
    """Yields non-empty batches, each with a flag that is True for the last;
    raises an error only after the items before it.
    """
    batch: list[T] = []
    held = 0
    with closing(items):
        try:
            for item in items:
                batch.append(item)
                held += size_bytes(item)
                if held >= BATCH_BYTES:
                    yield batch, False
                    batch, held = [], 0
        except Exception:
            if batch:
                yield batch, False
            raise
        if batch:
            yield batch, True
