"""The only code that touches the disk, kept small so that tests can record its calls or make them fail.

Nothing here retries a sync: after a failed fsync the kernel may drop the dirty pages, and a second fsync would falsely
succeed.
"""

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

BLOCK_BYTES = 4_096
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
TEMPORARY = ".tmp"
# Smaller writes are as fast through the page cache as past it.
PAST_CACHE_BYTES = 256 << 10


def padded(size_bytes: int) -> int:
    """Rounds up to a block boundary, so that later data shares no block with acknowledged data."""
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


class Disk:
    """The file operations of the operating system. Every method blocks and raises OSError."""

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        """Creates a file and opens it for writing. Raises FileExistsError if it exists."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def open(self, path: Path) -> int:
        """Opens an existing file for writing in place."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        """Writes all parts at `offset`; after an error any of the bytes may have been written.

        A single large part that is block-aligned, both in memory and in the file, bypasses the page cache if the file
        system supports that; zeros then pad it to the end of its last block.
        """
        if len(parts) == 1 and len(parts[0]) >= PAST_CACHE_BYTES and _is_aligned(parts[0], offset):
            with _past_cache(fd):
                if _written_whole(fd, parts[0], offset):
                    return
        total = sum(map(len, parts))
        done = os.pwritev(fd, parts, offset)
        if done < total:  # the disk became full or a signal arrived; the next call shows which
            rest = memoryview(b"".join(parts))
            while done < total:
                done += os.pwrite(fd, rest[done:], offset + done)

    def allocate(self, fd: int, size_bytes: int) -> None:
        """Allocates disk space for a file."""
        os.posix_fallocate(fd, 0, size_bytes)

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Truncates a file."""
        os.ftruncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        """Makes the file's bytes and length durable."""
        os.fdatasync(fd)

    def forget_pages(self, fd: int) -> None:
        """Drops the file from the page cache, as far as the system permits,
        so that the next read comes from the disk.
        """
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync_folder(self, path: Path) -> None:
        """Syncs the folder: names created, renamed or removed in it become durable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Renames a file, replacing any existing one; durable once the folder is synced."""
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        """Removes a file's name; durable once the folder is synced."""
        os.unlink(path)

    def make_folder(self, path: Path, *, mode: int = 0o755) -> None:
        """Creates one folder. Raises FileExistsError if it exists."""
        os.mkdir(path, mode)

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder; durable once its parent is synced."""
        os.rmdir(path)

    def read(self, path: Path, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """Returns bytes of a file; fewer than `size_bytes` if it ends earlier."""
        with open(path, "rb", buffering=0) as file:
            if size_bytes is None:
                return file.readall() or b""
            pieces = []
            while size_bytes > 0:
                piece = os.pread(file.fileno(), size_bytes, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
                size_bytes -= len(piece)
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def map(self, path: Path) -> memoryview:
        """Maps a file into memory; pages are read on access, and the mapping survives removal of the file.

        If the disk fails a read of a page, the process is killed (SIGBUS).
        """
        with open(path, "rb", buffering=0) as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes == 0:  # an empty file cannot be mapped
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_READ))


def _is_aligned(data: bytes | memoryview, offset: int) -> bool:
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address % BLOCK_BYTES == 0 and offset % BLOCK_BYTES == 0


@contextmanager
def _past_cache(fd: int) -> Iterator[None]:
    """Makes writes bypass the page cache (O_DIRECT), if the file system supports it."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        yield
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def _written_whole(fd: int, data: bytes | memoryview, offset: int) -> bool:
    """Writes whole blocks; returns False after a partial write or an unsupported alignment: the caller must rewrite
    everything.
    """
    whole = len(data) // BLOCK_BYTES * BLOCK_BYTES
    parts: list[memoryview | mmap.mmap] = [memoryview(data)[:whole]]
    if whole < len(data):
        last = mmap.mmap(-1, BLOCK_BYTES)
        last[: len(data) - whole] = data[whole:]
        parts.append(last)
    try:
        return os.pwritev(fd, parts, offset) == padded(len(data))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False


def replace_file(disk: Disk, path: Path, parts: Sequence[bytes | memoryview], *, mode: int = 0o644) -> None:
    """Replaces the contents of `path` atomically and durably: after a crash the file has the old or the new contents.

    Writes a temporary file beside it, syncs it, reads it back from the disk, and renames it.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    if temporary.exists():
        disk.unlink(temporary)
    fd = disk.create(temporary, mode=mode)
    try:
        disk.write(fd, parts, 0)
        disk.sync(fd)
        disk.forget_pages(fd)
        if disk.read(temporary) != b"".join(parts):
            raise OSError(errno.EIO, "what was read back is not what was written", str(temporary))
    except OSError as error:
        if error.errno in FULL:  # free the space again
            disk.unlink(temporary)
        raise
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Locks a folder exclusively against other callers of this function; waits for the lock. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def make_folders(disk: Disk, path: Path) -> None:
    """Creates the folder and its missing parents, durably; no effect if it exists."""
    if not path.is_dir():
        make_folders(disk, path.parent)
        try:
            disk.make_folder(path)
        except FileExistsError:
            if not path.is_dir():  # otherwise another process has created it in the meantime
                raise
        disk.sync_folder(path.parent)


def empty_folder(disk: Disk, path: Path) -> None:
    """Removes every file in a folder, durably; no effect if the folder is missing. Raises OSError."""
    if path.is_dir():
        for file in path.iterdir():
            disk.unlink(file)
        disk.sync_folder(path)
