"""Exclusive ownership of a folder by an flock on the folder: there is no lock file that could be removed.

The file `OWNER` names the owning process, for error messages only.
"""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import psutil

from oncegate.core.errors import LedgerBusy, LedgerFenced
from oncegate.ledgers.disk import FULL

OWNER_NAME = "OWNER"


class FolderLock:
    """An exclusive lock on the folder at `path`, held until `close` or until the process exits."""

    def __init__(self, path: Path, shown: str) -> None:
        """Locks the folder; messages name it `shown`. Raises LedgerBusy (another owner), OSError (cannot be
        opened).
        """
        self._path = path
        self._shown = shown
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = os.fstat(self._fd)
            self._inode = locked.st_dev, locked.st_ino
            self.require()
        except BlockingIOError as error:
            os.close(self._fd)
            raise LedgerBusy(
                f"{shown} is owned by {_owner(path)}; two owners would both grant. "
                "Stop that one, or give this one another folder."
            ) from error
        except BaseException:
            os.close(self._fd)
            raise

    def sign(self) -> None:
        """Records the owning process in `OWNER`, unless the disk is full. Raises OSError when the folder is not
        writable.
        """
        process = psutil.Process()
        try:
            (self._path / OWNER_NAME).write_text(f"{process.pid} {process.create_time():.0f}\n")
        except OSError as error:
            if error.errno not in FULL:
                raise

    def require(self) -> None:
        """Raises LedgerFenced unless `path` still names the locked folder;
        a different process may own its replacement.
        """
        try:
            now = os.stat(self._path)
            is_same = (now.st_dev, now.st_ino) == self._inode
        except OSError:
            is_same = False
        if not is_same:
            raise LedgerFenced(
                f"{self._shown} is no longer the folder that was opened: it was moved, removed or replaced; "
                "put it back; nothing was written"
            )

    def close(self) -> None:
        os.close(self._fd)


def _owner(path: Path) -> str:
    """Describes the owner, as in `process 4711 (since 10:02)`, or as `another process` if `OWNER` is unreadable."""
    try:
        pid, since_s = (path / OWNER_NAME).read_text().split()
        since = datetime.fromtimestamp(int(since_s), UTC).astimezone()
        return f"process {int(pid)} (since {since:%H:%M})"
    except (OSError, ValueError):
        return "another process"
