"""Room that is kept on the disk for what must not wait: one file below a data folder, given back when it is full."""

import contextlib
import os
import threading
from pathlib import Path

from oncegate.ledgers.disk import Disk

RESERVE_NAME = "RESERVE"  # in capitals, which no namespace can be
# Of a small disk no more is kept.
_DISK_SHARE = 16
# What must be free besides, so that what was given back is not taken away and given back again by the next append.
_MARGIN_BYTES = 1 << 20


class Reserve:
    """Keeps room for completes, releases and openings; any thread may call it. `size_bytes` 0: it keeps none."""

    def __init__(self, disk: Disk, folder: Path, size_bytes: int) -> None:
        self._disk = disk
        self._path = folder / RESERVE_NAME
        total = os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize if size_bytes else 0
        self._size_bytes = min(size_bytes, total // _DISK_SHARE)
        self._lock = threading.Lock()
        self.released = False

    def release(self) -> None:
        """Gives the room back to the disk, for what is to be ended; no effect without any."""
        with self._lock:
            if self._size_bytes:
                self.released = True
                with contextlib.suppress(OSError):
                    self._disk.unlink(self._path)

    def refill(self) -> None:
        """Takes the room again where there is enough; else it stays, or is from now on, released."""
        with self._lock:
            if not self._size_bytes or self._whole():
                self.released = False
                return
            self.released = True
            with contextlib.suppress(OSError):
                if self._missing_bytes() == 0:
                    self._take()
                    self.released = False

    def missing_bytes(self) -> int:
        """Tells how much more must be free until the room is taken again; 0: it is kept, or soon will be. OSError."""
        return self._missing_bytes() if self.released else 0

    def _missing_bytes(self) -> int:
        stat = os.statvfs(self._path.parent)
        # A file that is smaller, by a crash or an older setting, is replaced: what it takes is free then.
        free_bytes = stat.f_bavail * stat.f_frsize + self._held_bytes()
        return max(0, self._size_bytes + _MARGIN_BYTES - free_bytes)

    def _whole(self) -> bool:
        return self._held_bytes() >= self._size_bytes

    def _held_bytes(self) -> int:
        try:
            return self._path.stat().st_blocks * 512
        except OSError:
            return 0

    def _take(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(self._path)
        fd = self._disk.create(self._path)
        try:
            self._disk.allocate(fd, self._size_bytes)
        except OSError:
            self._disk.unlink(self._path)
            raise
        finally:
            self._disk.close(fd)
