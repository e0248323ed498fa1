"""A folder of rows that wait for the gateway: in order, synced, bounded, of one user, and locked by one process.

A file an entry, written beside, synced, and given its number as its name: a file with a name is whole, and one that a
crash left without a name was never acknowledged. A file is removed once the gateway has answered that its rows are
done; a crash in between sends them again, and they are dropped by their ids. Rows are plain, readable by this user
alone.
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


BYTES_MAX = 1 << 30  # an hour at 300 kB/s; little enough that a folder nobody looks at does not fill a disk
ENTRIES_MAX = 100_000  # a start lists them, and file systems slow down beyond: give more rows to each call
SUFFIX, BESIDE, ASIDE = ".rows", ".half", ".aside"

log = logging.getLogger("oncegate_spark")


class Spill:
    """Holds the rows of `on_down="spill"` in a folder of its own, which this process alone has until `close`.

    Any number of gateways and threads of the process may share it. `bytes_max`: of all that waits. `wall_ms`: the clock
    by which the gateway is told when rows were laid down, in ms since 1970; None: this machine's.

    A folder that is missing is made, for this user alone. Raises BadOption where another process has it, another user
    owns it or may write there, or it cannot be opened. POSIX only (it rests on flock). A forked child cannot use it.
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
            log.warning("%s: %d entries wait for the gateway, from before this start", self.folder, len(self._sizes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """How many entries, each the rows of one call, wait for the gateway."""
        return len(self._sizes)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes they take."""
        return sum(self._sizes.values())

    def append(self, entry: SpillEntry) -> int:
        """Lay down an entry behind the others, durably; its number. Raises SpillFull: nothing was laid down."""
        data = replace(entry, spilled_ms=max(0, self._wall_ms())).encode()
        with self._opened():
            self._check_room(len(data))
            number = self._next
            try:
                self._write(self._path(number), data)
            except OSError as error:
                raise self._not_laid_down(number, error) from error
            if not self._sizes:
                log.warning("%s: rows wait here from now on, until the gateway is back", self.folder)
            self._sizes[number] = len(data)
            self._next += 1
        return number

    def oldest(self) -> tuple[int, SpillEntry] | None:
        """The entry that is to be sent next, with its number; None where nothing waits.

        Raises Stopped where its file is damaged: whether its rows were written is unknown, and none behind it is sent.
        """
        with self._opened():
            number = min(self._sizes, default=None)
        if number is None:
            return None
        try:
            return number, SpillEntry.decode(self._path(number).read_bytes())
        except (OSError, DamagedEntry) as error:
            text = f"{self._path(number)} cannot be read back: {error}; unknown: whether its rows were written"
            damaged = Stopped(text, outcome=Outcome.UNKNOWN, code="SPILL_DAMAGED")
            raise stopped(damaged, self.folder, number) from error

    def done(self, number: int) -> None:
        """Remove an entry whose rows are done. Raises Stopped where its file stays: it is sent again, as duplicates."""
        with self._mutex:
            try:
                self._path(number).unlink(missing_ok=True)
            except OSError as error:
                raise Stopped(
                    f"{self._path(number)} cannot be removed: {error}; it waits on, and is sent again until it can be: "
                    "keep that within the horizon, so that its rows are dropped by their ids; its rows are written",
                    outcome=Outcome.WRITTEN,
                    code="SPILL_DISK",
                ) from error
            self._sizes.pop(number, None)
            if not self._sizes:
                log.info("%s: nothing waits here any more", self.folder)

    def set_aside(self, number: int) -> Path:
        """Rename the entry of this number, so that those behind it are sent; returns the file as it is called now.

        For a person, where its rows are refused for good: nobody sends that file, which `Entry.decode` reads. The
        error that stopped it tells the number, also in the log: its `extra["spill_number"]`.

        Raises BadOption where that entry is not the oldest, Unavailable while a call sends what waits: it is unknown
        then whether the rows are written, so ask again. Stopped, where the disk refuses.
        """
        with self.turn() as mine:
            if not mine:
                raise Unavailable(
                    f"a call sends what waits in {self.folder} just now: call set_aside({number}) again; "
                    "unknown: whether its rows are written",
                    outcome=Outcome.UNKNOWN,
                    code="SPILL_SENDING",
                )
            with self._opened():
                aside = self._renamed(number)
        log.warning("%s is set aside: what of its rows is not done is sent by nobody", aside)
        return aside

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Whoever sends what waits holds this; False where another call does so already."""
        mine = self._sending.acquire(blocking=False)
        try:
            yield mine
        finally:
            if mine:
                self._sending.release()

    def close(self) -> None:
        """Let go of the folder. What waits there stays, for whoever opens it next. In a forked child: does nothing."""
        if self._lock.is_held:
            with self._mutex:
                self._lock.release()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """With the mutex, and the folder open. Looked at before as well: a forked child's mutex may never be free."""
        self._check_open()
        with self._mutex:
            self._check_open()
            yield

    def _renamed(self, number: int) -> Path:
        oldest = min(self._sizes, default=None)
        if number != oldest:
            raise BadOption(
                f"the oldest entry of {self.folder} is {oldest}, and only that can be set aside, not {number}; "
                "nothing was set aside"
            )
        path = self._path(number)
        aside = path.with_suffix(ASIDE)
        try:
            path.rename(aside)
            self._sizes.pop(number)
            sync_folder(self.folder)
        except OSError as error:
            raise Stopped(
                f"{path} cannot be set aside: {error}; unknown: whether its rows are sent later",
                outcome=Outcome.UNKNOWN,
                code="SPILL_DISK",
            ) from error
        return aside

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:020d}{SUFFIX}"

    def _found(self) -> tuple[dict[int, int], int]:
        """The sizes of what waits, by number, and the number that comes next."""
        for half in self.folder.glob(f"*{BESIDE}"):  # a process died over it: it was never acknowledged
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
                f"the spill folder {self.folder} is not open in this process: make a Spill in the process that uses "
                "it, and close it last; nothing was sent"
            )

    def _check_room(self, size: int) -> None:
        waiting = self.waiting_bytes
        if waiting + size > self.bytes_max or len(self._sizes) >= ENTRIES_MAX:
            raise SpillFull(
                f"the spill folder {self.folder} holds {waiting} bytes in {len(self._sizes)} entries, and {size} more "
                f"are over its {self.bytes_max} bytes or {ENTRIES_MAX} entries: wait until it is sent, or raise "
                "bytes_max; nothing was written"
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
        """What was written of it is taken away again; where even that fails, a later start may find it and send it."""
        path = self._path(number)
        for candidate in (path, path.with_suffix(BESIDE)):
            with suppress(OSError):
                candidate.unlink(missing_ok=True)
        stays = path.exists()
        self._next += stays
        outcome = Outcome.UNKNOWN if stays else Outcome.NOT_WRITTEN
        ending = "unknown: whether these rows are sent later" if stays else "nothing was written"
        return SpillFull(f"the disk of the spill folder {self.folder} refuses: {error}; {ending}", outcome=outcome)


def _system_wall_ms() -> int:
    return time.time_ns() // 1_000_000
