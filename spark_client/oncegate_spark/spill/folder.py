"""A folder of rows that wait for the gateway: ordered, synced, bounded, private to one user, and locked by one process.

Each entry is a file that is written under a temporary name, synced, and renamed to its number. A numbered file is
therefore complete, and one without a number was never acknowledged. A file is removed once the gateway has confirmed
its rows; after a crash in between they are sent again, and dropped by their ids. Rows are not encrypted, but readable
only by this user.
"""

import logging
import os
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from oncegate_spark.disk import make_folder, sync_folder
from oncegate_spark.errors import BadOption, Outcome, SpillFull, Stopped, Unavailable
from oncegate_spark.spill.entry import DamagedEntry, SpillEntry, stopped


class SpillLock:
    """Exclusive lock of a folder, held until `release` or garbage collection; a forked child does not hold it.

    Raises BadOption if another process holds it, or another user may write to the folder; OSError if it cannot be
    opened.
    """

    def __init__(self, folder: Path) -> None:
        self._opened = _locked(folder)
        self._release = weakref.finalize(self, _unlocked, self._opened)
        self._release.atexit = False  # the end of the process releases it anyway
        _HELD.add(self)

    @property
    def is_held(self) -> bool:
        """False after a release, and in a forked child."""
        return self._release.alive

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        self._release()

    def forget(self) -> None:
        """Closes a forked child's descriptor without unlocking: flock belongs to the open file, which parent and child
        share.
        """
        if self._release.detach() is not None:
            os.close(self._opened)


_HELD: weakref.WeakSet[SpillLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_HELD):
        lock.forget()


if hasattr(os, "register_at_fork"):  # platforms without fork have no flock either
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
            f"the spill folder {folder} is in use: each process needs a folder of its own, and sends its contents; "
            "nothing was sent"
        ) from error
    except BaseException:
        os.close(opened)
        raise
    return opened


def _unlocked(opened: int) -> None:
    """Unlocks explicitly, since a child that is being forked may hold a copy of the descriptor."""
    import fcntl

    fcntl.flock(opened, fcntl.LOCK_UN)
    os.close(opened)


def _check_ours(folder: Path, status: os.stat_result) -> None:
    """Raises BadOption unless only this user may write: rows are unencrypted, and are sent under this process's key."""
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise BadOption(
            f"the spill folder {folder} belongs to user {status.st_uid} and has mode "
            f"{stat.S_IMODE(status.st_mode):03o}; "
            f"only its owner, user {os.geteuid()}, may have write access: chmod 700, or name a new folder inside it; "
            "nothing was sent"
        )


BYTES_MAX = 1 << 30  # an hour at 300 kB/s, and little enough not to fill a disk that is not monitored
ENTRIES_MAX = 100_000  # a start lists them, and file systems slow down beyond: pass more rows to each call
SUFFIX, BESIDE, ASIDE = ".rows", ".half", ".aside"

log = logging.getLogger("oncegate_spark")


class Spill:
    """Stores the rows of `on_down="spill"` in a folder that this process owns until `close`.

    All gateways and threads of the process may share it. A missing folder is created for this user alone.

    Args:
        bytes_max: limit for all waiting entries
        wall_ms: clock for the time of the spill, in ms since 1970; by default this machine's

    Raises BadOption if another process uses the folder, another user owns it or may write to it, or it cannot be
    opened. POSIX only (it uses flock). A forked child cannot use it.
    """

    def __init__(
        self, folder: str | Path, *, bytes_max: int = BYTES_MAX, wall_ms: Callable[[], int] | None = None
    ) -> None:
        self.folder = Path(folder)
        self.bytes_max, self._wall_ms = bytes_max, wall_ms or _system_wall_ms
        self._mutex = threading.Lock()
        self._sending = threading.Lock()
        try:
            make_folder(self.folder, 0o700)
            self._lock = SpillLock(self.folder)
            try:
                self._sizes, self._next = self._found()
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise BadOption(f"the spill folder {self.folder} cannot be used: {error}; nothing was sent") from error
        if self._sizes:
            log.warning("%s: %d entries of an earlier process wait for the gateway", self.folder, len(self._sizes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Number of waiting entries, each with the rows of one call."""
        return len(self._sizes)

    @property
    def waiting_bytes(self) -> int:
        """Total size of the waiting entries."""
        return sum(self._sizes.values())

    def append(self, entry: SpillEntry) -> int:
        """Stores an entry durably after the others; returns its number. Raises SpillFull: nothing was stored."""
        data = replace(entry, spilled_ms=max(0, self._wall_ms())).encode()
        with self._opened():
            self._check_room(len(data))
            number = self._next
            try:
                self._write(self._path(number), data)
            except OSError as error:
                raise self._not_laid_down(number, error) from error
            if not self._sizes:
                log.warning("%s: rows are spilled here until the gateway is back", self.folder)
            self._sizes[number] = len(data)
            self._next += 1
        return number

    def oldest(self) -> tuple[int, SpillEntry] | None:
        """Returns the next entry to send with its number; None if none waits.

        Raises Stopped if its file is damaged: whether its rows were written is unknown, and later entries are not sent.
        """
        with self._opened():
            number = min(self._sizes, default=None)
        if number is None:
            return None
        try:
            return number, SpillEntry.decode(self._path(number).read_bytes())
        except (OSError, DamagedEntry) as error:
            text = f"{self._path(number)} cannot be read: {error}; unknown: whether its rows were written"
            damaged = Stopped(text, outcome=Outcome.UNKNOWN, code="SPILL_DAMAGED")
            raise stopped(damaged, self.folder, number) from error

    def done(self, number: int) -> None:
        """Removes a finished entry. Raises Stopped if its file remains: it will be sent again, as duplicates."""
        with self._mutex:
            try:
                self._path(number).unlink(missing_ok=True)
            except OSError as error:
                raise Stopped(
                    f"{self._path(number)} cannot be removed: {error}; it is sent again until it can be: fix this "
                    "within "
                    "the retention of ids, so that its rows are dropped by their ids; its rows are written",
                    outcome=Outcome.WRITTEN,
                    code="SPILL_DISK",
                ) from error
            self._sizes.pop(number, None)
            if not self._sizes:
                log.info("%s: all spilled rows are sent", self.folder)

    def set_aside(self, number: int) -> Path:
        """Renames the entry with this number, so that later ones are sent; returns its new path.

        For an operator whose rows are permanently refused: the file is never sent, and `SpillEntry.decode` reads it.
        The number is in the error that stopped it, in its `extra["spill_number"]`, and in the log.

        Raises BadOption if the entry is not the oldest; Unavailable while another call sends entries: whether the rows
        are written is unknown, so retry; Stopped on a disk error.
        """
        with self.turn() as mine:
            if not mine:
                raise Unavailable(
                    f"another call sends the entries of {self.folder} now: call set_aside({number}) again; "
                    "unknown: whether its rows are written",
                    outcome=Outcome.UNKNOWN,
                    code="SPILL_SENDING",
                )
            with self._opened():
                aside = self._renamed(number)
        log.warning("%s was set aside: rows in it that are not done are never sent", aside)
        return aside

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Holds the right to send entries while the block runs; yields False if another call holds it."""
        mine = self._sending.acquire(blocking=False)
        try:
            yield mine
        finally:
            if mine:
                self._sending.release()

    def close(self) -> None:
        """Releases the folder; waiting entries stay for the next process. Does nothing in a forked child."""
        if self._lock.is_held:
            with self._mutex:
                self._lock.release()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Holds the mutex. Checks before as well that the folder is open: a forked child's mutex may never be free."""
        self._check_open()
        with self._mutex:
            self._check_open()
            yield

    def _renamed(self, number: int) -> Path:
        oldest = min(self._sizes, default=None)
        if number != oldest:
            raise BadOption(
                f"only the oldest entry of {self.folder}, {oldest}, can be set aside, not {number}; nothing was set "
                "aside"
            )
        path = self._path(number)
        aside = path.with_suffix(ASIDE)
        try:
            path.rename(aside)
            self._sizes.pop(number)
            sync_folder(self.folder)
        except OSError as error:
            raise Stopped(
                f"{path} cannot be set aside: {error}; unknown: whether its rows will be sent",
                outcome=Outcome.UNKNOWN,
                code="SPILL_DISK",
            ) from error
        return aside

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:020d}{SUFFIX}"

    def _found(self) -> tuple[dict[int, int], int]:
        """Returns the sizes of waiting entries by number, and the next number."""
        for half in self.folder.glob(f"*{BESIDE}"):  # a process died while writing it: it was never acknowledged
            half.unlink()
        sync_folder(self.folder)
        numbered = {suffix: self._numbered(suffix) for suffix in (SUFFIX, ASIDE)}
        last = max((number for paths in numbered.values() for number in paths), default=-1)
        return {number: path.stat().st_size for number, path in numbered[SUFFIX].items()}, last + 1

    def _numbered(self, suffix: str) -> dict[int, Path]:
        return {int(path.stem): path for path in self.folder.glob(f"*{suffix}") if path.stem.isdecimal()}

    def _check_open(self) -> None:
        if not self._lock.is_held:
            raise BadOption(
                f"the spill folder {self.folder} is not open in this process: create the Spill in the process that "
                "uses "
                "it, and close it last; nothing was sent"
            )

    def _check_room(self, size: int) -> None:
        waiting = self.waiting_bytes
        if waiting + size > self.bytes_max or len(self._sizes) >= ENTRIES_MAX:
            raise SpillFull(
                f"the spill folder {self.folder} has {waiting} bytes in {len(self._sizes)} entries; {size} more would "
                f"exceed its {self.bytes_max} bytes or {ENTRIES_MAX} entries: wait until it is sent, or raise "
                "bytes_max; "
                "nothing was written"
            )

    def _write(self, path: Path, data: bytes) -> None:
        half = path.with_suffix(BESIDE)
        opened = os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half.rename(path)
        sync_folder(self.folder)

    def _not_laid_down(self, number: int, error: OSError) -> SpillFull:
        """Removes what was written of an entry; returns the error. If even that fails, a later start may find and send
        it.
        """
        path = self._path(number)
        for candidate in (path, path.with_suffix(BESIDE)):
            with suppress(OSError):
                candidate.unlink(missing_ok=True)
        stays = path.exists()
        self._next += stays
        outcome = Outcome.UNKNOWN if stays else Outcome.NOT_WRITTEN
        ending = "unknown: whether these rows will be sent" if stays else "nothing was written"
        return SpillFull(f"disk error in the spill folder {self.folder}: {error}; {ending}", outcome=outcome)


def _system_wall_ms() -> int:
    return time.time_ns() // 1_000_000
