"""The only place that touches the disk: a few functions, so that tests can record them or make them fail.

Nothing here retries a sync: after a failed one the page cache lies, and a second would say that all is well.
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
# What is smaller goes through the page cache as fast as past it.
PAST_CACHE_BYTES = 256 << 10


def padded(size_bytes: int) -> int:
    """The next block boundary: what follows shares no block with what was acknowledged."""
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


class Disk:
    """The operating system's files. Every method blocks and raises OSError."""

    def create(self, path: Path, *, mode: int = 0o644) -> int:
        """A new file, open for writing; FileExistsError when there is one."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)

    def open(self, path: Path) -> int:
        """An existing file, open for writing in place."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        """Closes a file."""
        os.close(fd)

    def write(self, fd: int, parts: Sequence[bytes | memoryview], offset: int) -> None:
        """One write of all parts; after an error any of the bytes may be there.

        A large part that is alone, and lies on a block boundary in memory as in the file, is not copied into the page
        cache, where the file system can do without; then zeros follow it to the end of its last block.
        """
        if len(parts) == 1 and len(parts[0]) >= PAST_CACHE_BYTES and _is_aligned(parts[0], offset):
            with _past_cache(fd):
                if _written_whole(fd, parts[0], offset):
                    return
        total = sum(map(len, parts))
        done = os.pwritev(fd, parts, offset)
        if done < total:  # the disk became full, or a signal came: the next try tells which
            rest = memoryview(b"".join(parts))
            while done < total:
                done += os.pwrite(fd, rest[done:], offset + done)

    def allocate(self, fd: int, size_bytes: int) -> None:
        """Gives a file room on the disk, whatever is written later."""
        os.posix_fallocate(fd, 0, size_bytes)

    def truncate(self, fd: int, size_bytes: int) -> None:
        """Cuts a file to so many bytes."""
        os.ftruncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        """The file's bytes and length are durable when this returns."""
        os.fdatasync(fd)

    def forget_pages(self, fd: int) -> None:
        """Let the next read come from the disk, as far as the system grants that."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync_folder(self, path: Path) -> None:
        """Names created, renamed and removed in the folder are durable when this returns."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Gives a file another name, in place of what had it; durable once the folder is synced."""
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        """Removes a file's name; durable once the folder is synced."""
        os.unlink(path)

    def make_folder(self, path: Path, *, mode: int = 0o755) -> None:
        """Makes one folder; FileExistsError when there is one."""
        os.mkdir(path, mode)

    def remove_folder(self, path: Path) -> None:
        """Removes an empty folder; durable once the one above it is synced."""
        os.rmdir(path)

    def read(self, path: Path, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """Bytes of a file; fewer than asked for when it ends before."""
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
        """A file's bytes as they lie on the disk, read where they are looked at; they outlive its name.

        Where the disk cannot give them then, the process is killed (SIGBUS).
        """
        with open(path, "rb", buffering=0) as file:
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes == 0:  # which cannot be mapped
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), size_bytes, access=mmap.ACCESS_READ))


def _is_aligned(data: bytes | memoryview, offset: int) -> bool:
    address: int = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return address % BLOCK_BYTES == 0 and offset % BLOCK_BYTES == 0


@contextmanager
def _past_cache(fd: int) -> Iterator[None]:
    """Writes go past the page cache (O_DIRECT) where the file system knows how; nothing changes where it does not."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | os.O_DIRECT)
    try:
        yield
    finally:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags)


def _written_whole(fd: int, data: bytes | memoryview, offset: int) -> bool:
    """Writes whole blocks; false where the file system wants other ones or took a part: then all is written again."""
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
    """Make `path` hold just these bytes, durably: after a crash it holds them all or is as before.

    They are written to a file beside it, synced, read back from the disk, and only then take its name.
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
        if error.errno in FULL:  # give back what it took
            disk.unlink(temporary)
        raise
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)


@contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Keeps everybody else out who asks for the same; waits for whoever is in. OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def make_folders(disk: Disk, path: Path) -> None:
    """The folder and whatever is missing above it, durably; no effect when it is there."""
    if not path.is_dir():
        make_folders(disk, path.parent)
        try:
            disk.make_folder(path)
        except FileExistsError:
            if not path.is_dir():  # else another process has made it meanwhile
                raise
        disk.sync_folder(path.parent)


def empty_folder(disk: Disk, path: Path) -> None:
    """Removes every file of a folder, durably; no effect when it is not there. OSError."""
    if path.is_dir():
        for file in path.iterdir():
            disk.unlink(file)
        disk.sync_folder(path)
