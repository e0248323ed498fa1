"""The only place that touches the disk: a few functions, so that tests can record them or make them fail.

Nothing here retries a sync: after a failed one the page cache lies, and a second would say that all is well.
"""

import errno
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

BLOCK_BYTES = 4_096
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
TEMPORARY = ".tmp"


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
        """One write of all parts; after an error any of the bytes may be there."""
        total = sum(len(part) for part in parts)
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


def make_folders(disk: Disk, path: Path) -> None:
    """The folder and whatever is missing above it, durably; no effect when it is there."""
    if not path.is_dir():
        make_folders(disk, path.parent)
        disk.make_folder(path)
        disk.sync_folder(path.parent)


def empty_folder(disk: Disk, path: Path) -> None:
    """Removes every file of a folder, durably; no effect when it is not there. OSError."""
    if path.is_dir():
        for file in path.iterdir():
            disk.unlink(file)
        disk.sync_folder(path)
