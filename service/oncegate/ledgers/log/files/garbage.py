"""Files that nothing needs any more go when nobody reads them: no replay, and no process that holds the ledger.

To hold a ledger is a shared flock on its `outputs` folder; files are unlinked under an exclusive one. It needs no
right to write, and ends with the process.
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
    """Keeps every file of the ledger with this outputs folder until it ends. Waits for removals under way."""
    fd = _open_folder(outputs)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


@contextmanager
def removable(outputs: Path) -> Iterator[bool]:
    """Tells whether files may be removed until this ends: nobody holds them."""
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
    """Knows what is to be removed below one shard. `run` blocks; the rest does not."""

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
        """Tells whether anything is still to be removed."""
        return bool(self._paths or self._needed)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keeps everything that is there now until this ends."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def add(self, paths: list[Path], needed_segment: int = 0) -> None:
        """Adds files that no durable frame names any more, and all segments before the needed one."""
        self._paths += paths
        self._needed = max(self._needed, needed_segment)

    def run(self) -> None:
        """Remove what can be removed now. What fails stays: nobody reads it, and the next opening tries again."""
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
    """Unlink the segments before the needed one, ascending, so that what is left has no hole. OSError."""
    for segment in segments_in(shard):
        if segment < needed:
            disk.unlink(segment_path(shard, segment))
