"""Writes and reads the snapshots that replace compacted entries.

A snapshot consists of ranges of a file, each a msgpack array of entries or of catalog pieces. It is written
concurrently with appends, before the frame that names it; until then no frame names the file.
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
    """The writer of a snapshot, in a new output file. Each piece is synced separately,
    so a concurrent append waits for one at most.

    All methods block. The file gets its name only when complete; after a crash the next opening removes the temporary
    file instead of moving it aside.
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
        """Writes a piece durably and returns its location. Raises NoRoom (the file is removed), OSError."""
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
        """Renames the complete file; no effect if nothing was added. Raises OSError."""
        if self._fd is not None:
            self._close()
            self._disk.rename(self._temporary, self._path)
            self._disk.sync_folder(self._folder)

    def abandon(self, removing: bool) -> None:
        """Aborts the snapshot. `removing`: deletes the file; otherwise the next opening does. OSError is ignored."""
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
    """Converts the error of a full disk to NoRoom, and removes the file.
    Not used around syncs, after which the file's state is
    unknown.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        if path.exists():
            disk.unlink(path)
        raise NoRoom(str(error)) from error


def read_snapshot(disk: Disk, folder: Path, locations: Sequence[Location]) -> Iterator[bytes]:
    """Yields the verified entries or catalog pieces at these locations. Raises LedgerDamaged."""
    for location, data in zip(locations, read_ranges(disk, folder, locations), strict=True):
        try:
            yield from decode_piece(data)
        except ValueError as error:
            raise LedgerDamaged(
                f"{output_path(folder, location.file)}: the state at byte {location.offset} is not of a format that "
                f"this version reads ({error}); open it with the version that wrote it"
            ) from error
