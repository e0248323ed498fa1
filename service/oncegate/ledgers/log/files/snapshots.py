"""Writes and reads the snapshot that replaces compacted entries: ranges of a file, each a msgpack array of entries, or
of pieces of the catalog.

Written beside the writer, before the frame that names it; until then it is a file like any that no frame names.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.disk import FULL, TEMPORARY, Disk, padded
from oncegate.ledgers.log.files.outputs import located, output_path, read_ranges
from oncegate.ledgers.log.files.segments import NoRoom
from oncegate.ledgers.snapshot_pieces import decode_piece, encode_piece


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
        data = encode_piece(piece)
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


def read_snapshot(disk: Disk, folder: Path, locations: Sequence[Location]) -> Iterator[bytes]:
    """Yields the snapshot's entries, or the catalog's pieces, at these locations, verified. LedgerDamaged."""
    for location, data in zip(locations, read_ranges(disk, folder, locations), strict=True):
        try:
            yield from decode_piece(data)
        except ValueError as error:
            raise LedgerDamaged(
                f"{output_path(folder, location.file)}: the state at byte {location.offset} is not of a format that "
                f"this version reads ({error}); open it with the version that wrote it"
            ) from error
