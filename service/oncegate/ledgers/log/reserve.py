"""Disk space reserved for completes and releases: one preallocated file in a data folder, deleted when the disk is
full.
"""

import contextlib
import os
import threading
from pathlib import Path

from oncegate.ledgers.disk import Disk

RESERVE_NAME = "RESERVE"  # upper case, which no namespace can have
# The reserve is at most 1/16 of the disk.
_DISK_SHARE = 16
# Hysteresis: without this margin, alternate appends would release and take the reserve again.
_MARGIN_BYTES = 1 << 20


class Reserve:
    """Disk space reserved for completes, releases and openings. Thread-safe. `size_bytes` 0 disables it."""

    def __init__(self, disk: Disk, folder: Path, size_bytes: int) -> None:
        self._disk = disk
        self._path = folder / RESERVE_NAME
        total = os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize if size_bytes else 0
        self._size_bytes = min(size_bytes, total // _DISK_SHARE)
        self._lock = threading.Lock()
        self.released = False

    def release(self) -> None:
        """Frees the reserve for completes and releases; no effect if it is disabled."""
        with self._lock:
            if self._size_bytes:
                self.released = True
                with contextlib.suppress(OSError):
                    self._disk.unlink(self._path)

    def refill(self) -> None:
        """Allocates the reserve again if there is enough space; otherwise marks it as released."""
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
        """Returns how many more bytes must be free before the reserve can be allocated again;
        0 if it is or can be allocated.
        OSError.
        """
        return self._missing_bytes() if self.released else 0

    def _missing_bytes(self) -> int:
        stat = os.statvfs(self._path.parent)
        # A smaller file, left by a crash or an older setting, is replaced, so its own space counts as free.
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
