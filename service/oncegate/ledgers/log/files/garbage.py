"""Removal of unneeded files, which is deferred while a replay reads them or another process holds the ledger.

A process holds a ledger by a shared flock on its `outputs` folder; files are unlinked under an exclusive one. The lock
needs no write permission and ends with the process.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.files.segments import segment_path, segments_in


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextmanager
def held(outputs: Path) -> Iterator[None]:
    """Prevents the removal of any file of the ledger with this `outputs` folder. Waits for removals in progress."""
    fd = _open_folder(outputs)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


@contextmanager
def removable(outputs: Path) -> Iterator[bool]:
    """Yields True if no process holds the ledger, and lets only this process remove files; otherwise yields False."""
    fd = _open_folder(outputs)
    try:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
            return
        yield False
    finally:
        os.close(fd)


class Garbage:
    """The files to be removed from one shard. `run` blocks; the other methods do not."""

    def __init__(self, disk: Disk, shard: Path, outputs: Path) -> None:
        self._disk = disk
        self._shard = shard
        self._outputs = outputs
        self._readers = 0
        self._lock = threading.Lock()
        self._paths: list[Path] = []
        self._needed = 0

    @property
    def waiting(self) -> bool:
        """True while files remain to be removed."""
        return bool(self._paths or self._needed)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Prevents removals while the context is open."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def add(self, paths: list[Path], needed_segment: int = 0) -> None:
        """Schedules the removal of files that no durable frame names, and of all segments before `needed_segment`."""
        self._paths += paths
        self._needed = max(self._needed, needed_segment)

    def run(self) -> None:
        """Removes the scheduled files unless they are in use. Failed removals are retried at the next opening."""
        with self._lock:
            if self._readers or not self.waiting:
                return
            with contextlib.suppress(OSError), removable(self._outputs) as free:
                if free:
                    self._run()

    def _run(self) -> None:
        paths, needed, self._paths, self._needed = self._paths, self._needed, [], 0
        for path in paths:
            with contextlib.suppress(OSError):
                self._disk.unlink(path)
        if needed:
            remove_segments(self._disk, self._shard, needed)


def remove_segments(disk: Disk, shard: Path, needed: int) -> None:
    """Removes the segments before `needed`, in ascending order, so that a crash leaves no gap. Raises OSError."""
    for segment in segments_in(shard):
        if segment < needed:
            disk.unlink(segment_path(shard, segment))
