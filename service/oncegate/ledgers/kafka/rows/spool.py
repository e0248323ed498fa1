"""Keeps rows of stages on the owner's disk until the commit that streams them into Kafka, or until they are dropped.

Not a part of the ledger: what is lost here, or is not as it was written, is a stage that is missing, and is written
again by whoever staged it. Everything blocks; call it in a thread.

Layout: <folder>/<generation, 20 digits>/<range, 32 hex digits>. A file is `OGSPOOL1`, then for each piece its length
(u32, little-endian), the SHA-256 of range, number of the piece (u64) and bytes, and the bytes.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from oncegate.core.errors import LedgerDown, LedgerFull, MissingStage, QuotaExceeded
from oncegate.ledgers.disk import FULL, Disk, make_folders

_MAGIC = b"OGSPOOL1"
_PIECE = struct.Struct("<I32s")
# What a length may say at most, so that a damaged one does not ask for all memory.
PIECE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Spooled:
    """Says what was kept: the range's id (16 bytes), how many pieces, bytes on the disk, SHA-256 of the pieces' own."""

    range_id: bytes
    pieces: int
    size_bytes: int
    sha256: bytes


class Spool:
    """Keeps ranges of rows in files, for one owner. `generation`: of its opening; `quota_bytes`: of all files.

    Files of older generations stay until `wipe`, and count. Any thread may call it.
    """

    def __init__(self, folder: Path, generation: int, quota_bytes: int, disk: Disk | None = None) -> None:
        self._folder = folder
        self._own = folder / f"{generation:020d}"
        self._disk = disk or Disk()
        self._lock = Lock()
        self.quota_bytes = quota_bytes
        self.size_bytes = 0

    def open(self) -> None:
        """Makes the folders and counts what is there. LedgerFull: no room for them; LedgerDown: the disk failed."""
        with _told("the spool was not opened"):
            make_folders(self._disk, self._own)
            self.size_bytes = sum(file.stat().st_size for file in self._folder.glob("*/*"))

    def write(self, range_id: bytes, pieces: Iterable[bytes | memoryview]) -> Spooled:
        """Keeps the pieces of a new range, 64 MiB each at most; they are on the disk when this returns.

        One piece is in memory at a time. Raises QuotaExceeded, LedgerFull: nothing of it is kept; LedgerDown: the disk
        failed, and the owner stops using this spool.
        """
        path, held = self._path(range_id), _Held()
        with _told("the stage was not kept"):
            fd = self._disk.create(path, mode=0o600)
            try:
                spooled = self._written(fd, range_id, pieces, held)
                self._disk.sync(fd)
                self._disk.sync_folder(self._own)
            except BaseException:
                with suppress(OSError):
                    self._disk.unlink(path)
                    self._give_back(held.size_bytes)
                raise
            finally:
                self._disk.close(fd)
        return spooled

    def _written(self, fd: int, range_id: bytes, pieces: Iterable[bytes | memoryview], held: "_Held") -> Spooled:
        """Writes piece by piece; `held`: how much of the quota it took, also where it ends in an error."""
        whole, count = hashlib.sha256(), 0
        self._take(held, len(_MAGIC))
        self._disk.write(fd, [_MAGIC], 0)
        for count, piece in enumerate(pieces, start=1):
            assert len(piece) <= PIECE_BYTES_MAX, "cut it smaller"
            digest, at = _digest(range_id, count - 1, piece), held.size_bytes
            self._take(held, _PIECE.size + len(piece))
            self._disk.write(fd, [_PIECE.pack(len(piece), digest), piece], at)
            whole.update(digest)
        return Spooled(range_id, count, held.size_bytes, whole.digest())

    def read(self, spooled: Spooled) -> Iterator[bytes]:
        """Reads a range piece by piece, each checked before it is handed over.

        Raises MissingStage where the file is not there, ends early, or is not what was written: what was handed over
        before that is right, and is not all.
        """
        path, at, whole = self._path(spooled.range_id), len(_MAGIC), hashlib.sha256()
        if self._bytes(path, 0, at) != _MAGIC:
            raise _missing(spooled, "its file does not begin as one")
        for number in range(spooled.pieces):
            head = self._bytes(path, at, _PIECE.size)
            size_bytes, digest = _PIECE.unpack(head) if len(head) == _PIECE.size else (0, b"")
            if size_bytes > PIECE_BYTES_MAX:
                raise _missing(spooled, f"piece {number} is not what was written")
            piece = self._bytes(path, at + _PIECE.size, size_bytes)
            if len(piece) != size_bytes or _digest(spooled.range_id, number, piece) != digest:
                raise _missing(spooled, f"piece {number} is not what was written")
            whole.update(digest)
            at += _PIECE.size + size_bytes
            yield piece
        if whole.digest() != spooled.sha256:
            raise _missing(spooled, "its pieces are not those that were written")

    def drop(self, range_ids: Iterable[bytes]) -> None:
        """Removes ranges, of an abort or a commit; one that is not there is none. LedgerDown: the disk failed.

        A name that comes back after a power failure goes with the next owner's `wipe`.
        """
        with _told("the stages were not removed"):
            self._remove([self._path(range_id) for range_id in range_ids])

    def wipe(self, before_generation: int) -> None:
        """Removes all that older generations kept. Only for an owner whose opening is committed: until then another one
        may be serving from it. LedgerDown: the disk failed; it may be called again."""
        with _told("the spool of older owners was not removed"):
            for folder in sorted(self._folder.iterdir()):
                if folder.name.isdigit() and int(folder.name) < before_generation:
                    self._remove(sorted(folder.iterdir()))
                    self._disk.remove_folder(folder)
            self._disk.sync_folder(self._folder)

    def _bytes(self, path: Path, offset: int, size_bytes: int) -> bytes:
        try:
            return self._disk.read(path, offset, size_bytes)
        except OSError as error:
            raise MissingStage(f"a stage cannot be read ({error.strerror}): write the batch again") from error

    def _take(self, held: "_Held", size_bytes: int) -> None:
        with self._lock:
            if self.size_bytes + size_bytes > self.quota_bytes:
                raise QuotaExceeded(
                    f"stages hold {self.size_bytes} bytes of the {self.quota_bytes} that they may, and "
                    f"{size_bytes} more do not fit; nothing was written"
                )
            self.size_bytes += size_bytes
            held.size_bytes += size_bytes

    def _give_back(self, size_bytes: int) -> None:
        with self._lock:
            self.size_bytes -= size_bytes

    def _remove(self, paths: Sequence[Path]) -> None:
        for path in paths:
            with suppress(FileNotFoundError):
                size_bytes = path.stat().st_size
                self._disk.unlink(path)
                self._give_back(size_bytes)

    def _path(self, range_id: bytes) -> Path:
        return self._own / range_id.hex()


@dataclass
class _Held:
    """How much of the quota one file has taken."""

    size_bytes: int = 0


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Says a full disk as LedgerFull, and any other failure of it as LedgerDown."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise LedgerFull(f"no room on the disk of stages: {what}; nothing was written") from error
        raise LedgerDown(f"the disk of stages failed ({error.strerror}): {what}") from error


def _digest(range_id: bytes, number: int, piece: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(range_id + number.to_bytes(8, "little"))
    digest.update(piece)
    return digest.digest()


def _missing(spooled: Spooled, why: str) -> MissingStage:
    return MissingStage(f"stage {spooled.range_id.hex()} is lost, {why}: write the batch again. Nothing was written")
