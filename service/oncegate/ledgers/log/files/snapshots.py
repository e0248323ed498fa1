"""Writes and reads the snapshot that replaces compacted entries: ranges of a file, each a msgpack array of entries, or
of pieces of the catalog.

Written beside the writer, before the frame that names it; until then it is a file like any that no frame names.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from oncegate.core.errors import LedgerDamaged, LedgerDown
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.disk import FULL, TEMPORARY, Disk, padded
from oncegate.ledgers.log.files.outputs import located, output_path, read_ranges
from oncegate.ledgers.log.files.segments import NoRoom

# Written and synced, read and verified at once; an entry larger than this has a range to itself.
PIECE_BYTES = 2 << 20

_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(list[bytes])


class SnapshotWriter:
    """Fills a new output file piece by piece, each synced by itself: an append that comes meanwhile waits for
    one at most. All methods block.

    The file has its name only when it is whole: what a crash cuts short is removed at the next opening, not kept aside.
    """

    def __init__(self, disk: Disk, folder: Path, file: tuple[int, int]) -> None:
        self._disk = disk
        self._folder = folder
        self._file = file
        self._path = output_path(folder, file)
        self._temporary = self._path.with_name(self._path.name + TEMPORARY)
        self._fd: int | None = None
        self._end = 0

    def add(self, piece: list[bytes]) -> Location:
        """Makes these durable; returns where they are. NoRoom: no file is left; OSError."""
        data = _encode(piece)
        with _room(self._disk, self._temporary):
            if self._fd is None:
                self._fd = self._disk.create(self._temporary)
            self._disk.write(self._fd, [data], self._end)
        self._disk.sync(self._fd)
        location = located(self._file, self._end, data)
        self._end += padded(len(data))
        return location

    def finish(self) -> None:
        """Gives the file its name; there is none when nothing was added. OSError."""
        if self._fd is not None:
            self._close()
            self._disk.rename(self._temporary, self._path)
            self._disk.sync_folder(self._folder)

    def abandon(self, removing: bool) -> None:
        """Go no further. `removing`: leave no file; what is left goes at the next opening. OSError is passed over."""
        if self._fd is not None:
            with suppress(OSError):
                self._close()
                if removing and self._temporary.exists():
                    self._disk.unlink(self._temporary)

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            self._disk.close(fd)


@contextmanager
def _room(disk: Disk, path: Path) -> Iterator[None]:
    """Raises NoRoom for a full disk, and no file is left. Not around a sync: after that nobody knows."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        if path.exists():
            disk.unlink(path)
        raise NoRoom(str(error)) from error


async def until(closing: asyncio.Event, snapshot: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yields a snapshot's entries; LedgerDown once the ledger is to be closed, for the rest may never come."""
    closed, entries = asyncio.ensure_future(closing.wait()), aiter(snapshot)
    try:
        while True:
            following = asyncio.ensure_future(_next(entries))
            await asyncio.wait((following, closed), return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                await asyncio.wait((following,))
                raise LedgerDown("the ledger is being closed; it was not compacted")
            if (entry := following.result()) is None:
                return
            yield entry
    finally:
        closed.cancel()


async def _next(entries: AsyncIterator[bytes]) -> bytes | None:
    return await anext(entries, None)


async def pieces_of(snapshot: AsyncIterable[bytes]) -> AsyncIterator[list[bytes]]:
    """Yields a snapshot's entries in order, so many at a time as are written at once."""
    piece = _Piece()
    async for entry in snapshot:
        if full := piece.add(entry):
            yield full
    if piece.entries:
        yield piece.entries


def several(entries: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yields the same of entries that need not be waited for."""
    piece = _Piece()
    for entry in entries:
        if full := piece.add(entry):
            yield full
    if piece.entries:
        yield piece.entries


class _Piece:
    """Collects what is written at once."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self._size_bytes = 0

    def add(self, entry: bytes) -> list[bytes]:
        """Adds one; returns those before it where they are enough without it, else none."""
        full: list[bytes] = []
        if self.entries and self._size_bytes + len(entry) > PIECE_BYTES:
            full, self.entries, self._size_bytes = self.entries, [], 0
        self.entries.append(entry)
        self._size_bytes += len(entry)
        return full


def read_snapshot(disk: Disk, folder: Path, locations: Sequence[Location]) -> Iterator[bytes]:
    """Yields the snapshot's entries, or the catalog's pieces, at these locations, verified. LedgerDamaged."""
    for location, data in zip(locations, read_ranges(disk, folder, locations), strict=True):
        try:
            yield from _decoder.decode(data)
        except ValueError as error:
            raise LedgerDamaged(
                f"{output_path(folder, location.file)}: the state at byte {location.offset} is not of a format that "
                f"this version reads ({error}); open it with the version that wrote it"
            ) from error
