"""The lock on a spill folder: it is one process's at a time, and no other user's."""

import os
import stat
import weakref
from pathlib import Path

from oncegate_spark.errors import BadOption


class SpillLock:
    """A folder that this process alone has until `release`, or until nobody refers to this; a forked child has no part.

    Raises BadOption where another process has it, or it is not this user's alone to write; OSError where it cannot be
    opened.
    """

    def __init__(self, folder: Path) -> None:
        self._opened = _locked(folder)
        self._release = weakref.finalize(self, _unlocked, self._opened)
        self._release.atexit = False  # the end of the process releases it by itself
        _HELD.add(self)

    @property
    def is_held(self) -> bool:
        """False once it is released, and in a forked child."""
        return self._release.alive

    def release(self) -> None:
        """Let go of the folder; a second time does nothing."""
        self._release()

    def forget(self) -> None:
        """Close a forked child's copy, and leave the lock to the parent: flock is of the open file, which both have."""
        if self._release.detach() is not None:
            os.close(self._opened)


_HELD: weakref.WeakSet[SpillLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):  # absent where there is no fork; nor is there flock
    os.register_at_fork(after_in_child=_forget_all)


def _locked(folder: Path) -> int:
    import fcntl

    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check_ours(folder, os.fstat(opened))
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(opened)
        raise BadOption(
            f"the spill folder {folder} is in use: each process has one of its own, and sends what is in it; "
            "nothing was sent"
        ) from error
    except BaseException:
        os.close(opened)
        raise
    return opened


def _unlocked(opened: int) -> None:
    """Unlocked by name, and not by the last close alone: a child that is just being forked may have a copy."""
    import fcntl

    fcntl.flock(opened, fcntl.LOCK_UN)
    os.close(opened)


def _check_ours(folder: Path, status: os.stat_result) -> None:
    """Rows lie there in plain, and whoever writes there chooses what is sent under this process's key."""
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadOption(
            f"the spill folder {folder} is user {status.st_uid}'s with mode {stat.S_IMODE(status.st_mode):03o}; it "
            f"must be user {os.geteuid()}'s, and nobody else's to write: chmod 700, or name a new folder in it; "
            "nothing was sent"
        )
