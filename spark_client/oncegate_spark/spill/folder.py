"""A folder of rows that wait for the gateway: in order, synced, bounded, and one process's at a time.

A file an entry, written beside, synced, and given its number as its name: what has a name is whole, and what a crash
left without one was never acknowledged. A file is removed once the gateway has said that its rows are done; a crash in
between sends them again, and they are dropped by their ids.
"""

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from oncegate_spark.errors import BadOption, Outcome, SpillFull, Stopped
from oncegate_spark.spill.entry import DamagedEntry, Entry

BYTES_MAX = 1 << 30  # an hour at 300 kB/s; little enough that a folder nobody looks at does not fill a disk
ENTRIES_MAX = 100_000  # a start lists them, and file systems slow down beyond: give more rows to each call
SUFFIX, BESIDE, ASIDE = ".rows", ".half", ".aside"

log = logging.getLogger("oncegate_spark")


class Spill:
    """Holds the rows of `on_down="spill"` in a folder of its own, which this process alone has until `close`.

    Any number of gateways and threads of the process may share it. `bytes_max`: of all that waits.

    Raises BadOption where another process has the folder, or it cannot be opened. POSIX only (it rests on flock).
    """

    def __init__(self, folder: str | Path, *, bytes_max: int = BYTES_MAX) -> None:
        self.folder = Path(folder)
        self.bytes_max = bytes_max
        self._mutex = threading.Lock()
        self._sending = threading.Lock()
        self._pid = os.getpid()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = _locked(self.folder)
            self._sizes = self._found()
        except OSError as error:
            raise BadOption(f"the spill folder {self.folder} cannot be used: {error}; nothing was sent") from error
        names = (path.stem for suffix in (SUFFIX, ASIDE) for path in self.folder.glob(f"*{suffix}"))
        self._next = max((int(name) for name in names if name.isdigit()), default=-1) + 1
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

    def append(self, entry: Entry) -> int:
        """Lay down an entry behind the others, durably; its number. Raises SpillFull: nothing was laid down."""
        data = entry.encode()
        with self._mutex:
            self._check_open()
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

    def oldest(self) -> tuple[int, Entry] | None:
        """The entry that is to be sent next, with its number; None where nothing waits.

        Raises Stopped where its file is damaged: whether its rows were written is unknown, and none behind it is sent.
        """
        with self._mutex:
            self._check_open()
            number = min(self._sizes, default=None)
        if number is None:
            return None
        try:
            return number, Entry.decode(self._path(number).read_bytes())
        except (OSError, DamagedEntry) as error:
            raise Stopped(
                f"{self._path(number)} cannot be read back: {error}; see to it, or put it aside by set_aside(); "
                "unknown: whether its rows were written",
                outcome=Outcome.UNKNOWN,
                code="SPILL_DAMAGED",
            ) from error

    def done(self, number: int) -> None:
        """Remove an entry whose rows are done."""
        with self._mutex:
            self._path(number).unlink(missing_ok=True)
            self._sizes.pop(number, None)
            if not self._sizes:
                log.info("%s: nothing waits here any more", self.folder)

    def set_aside(self) -> Path | None:
        """Rename the oldest entry, so that those behind it are sent; the file as it is called now, None without one.

        For a person, where the gateway refuses its rows for good: they are not written, and nobody sends that file.
        """
        with self._mutex:
            self._check_open()
            number = min(self._sizes, default=None)
            if number is None:
                return None
            aside = self._path(number).with_suffix(ASIDE)
            self._path(number).rename(aside)
            _sync_folder(self.folder)
            self._sizes.pop(number)
        log.warning("%s is set aside: its rows are not written, and nobody will send them", aside)
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
        """Let go of the folder. What waits there stays, for whoever opens it next."""
        with self._mutex:
            lock, self._lock = self._lock, None
            if lock is not None:
                os.close(lock)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:020d}{SUFFIX}"

    def _found(self) -> dict[int, int]:
        for half in self.folder.glob(f"*{BESIDE}"):  # a process died over it: it was never acknowledged
            half.unlink()
        _sync_folder(self.folder)
        found = (path for path in self.folder.glob(f"*{SUFFIX}") if path.stem.isdigit())
        return {int(path.stem): path.stat().st_size for path in found}

    def _check_open(self) -> None:
        if self._lock is None or self._pid != os.getpid():
            raise BadOption(
                f"the spill folder {self.folder} is not open in this process: make a Spill in the process that uses "
                "it, and close it last; nothing was sent"
            )

    def _check_room(self, size: int) -> None:
        held = self.waiting_bytes
        if held + size > self.bytes_max or len(self._sizes) >= ENTRIES_MAX:
            raise SpillFull(
                f"the spill folder {self.folder} holds {held} bytes in {len(self._sizes)} entries, and {size} more are "
                f"over its {self.bytes_max} bytes or {ENTRIES_MAX} entries: wait until it is sent, or raise bytes_max; "
                "nothing was written"
            )

    def _write(self, path: Path, data: bytes) -> None:
        half = path.with_suffix(BESIDE)
        with half.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half.rename(path)
        _sync_folder(self.folder)

    def _not_laid_down(self, number: int, error: OSError) -> SpillFull:
        """What was written of it is taken away again; where even that fails, a later start may find it and send it."""
        path = self._path(number)
        for one in (path, path.with_suffix(BESIDE)):
            with suppress(OSError):
                one.unlink(missing_ok=True)
        stays = path.exists()
        self._next += stays
        outcome = Outcome.UNKNOWN if stays else Outcome.NOT_WRITTEN
        ending = "unknown: whether these rows are sent later" if stays else "nothing was written"
        return SpillFull(f"the disk of the spill folder {self.folder} refuses: {error}; {ending}", outcome=outcome)


def _locked(folder: Path) -> int:
    """The open folder, locked for this process alone. Raises BadOption where another has it."""
    import fcntl

    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(opened)
        raise BadOption(
            f"the spill folder {folder} is in use: each process has one of its own, and sends what is in it; "
            "nothing was sent"
        ) from error
    return opened


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
