"""Keeps the LSM index's sorted runs as files below a data folder, or in memory for a ledger without a data folder.

No ledger names runs, and no backup contains them: they can be made again. A file is written under a temporary name,
synced piece by piece, and renamed when it is complete. Files left incomplete by a crash are removed at the next
opening.
"""

import asyncio
import contextlib
import itertools
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Lock

from oncegate.core.errors import LedgerFenced, LedgerFull
from oncegate.ledgers.disk import FULL, Disk, make_folders
from oncegate.ledgers.log.data_dir import ledger_errors
from oncegate.ledgers.log.ledgers import finished
from oncegate.ledgers.log.opening.recovery import RUNS_NAME, SHARD_NAME
from oncegate.ports import OpenLedger

TEMPORARY = ".tmp"  # ends the name of what is not whole yet
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def is_run_name(name: str) -> bool:
    """Returns whether this name is valid for a completely written run."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(TEMPORARY)


def require_run_name(name: str) -> None:
    """Raises ValueError unless this name is valid for a completely written run."""
    if not is_run_name(name):
        raise ValueError(
            f"a run is 1 to 64 of a-z, 0-9, '.', '_', '-', the first a letter or digit, without {TEMPORARY}: {name!r}"
        )


# A concurrent append waits for the sync of at most this many bytes.
SYNC_BYTES = 2 << 20


class LocalRuns:
    """Implements `ports.Runs` over one folder, which the first write creates.

    require_owner: raises LedgerFenced for an old owner.
    epoch: keeps the temporary names of different owners apart.
    """

    def __init__(self, disk: Disk, folder: Path, epoch: int, require_owner: Callable[[], None]) -> None:
        self._disk = disk
        self._folder = folder
        self._epoch = epoch
        self._require_owner = require_owner
        self._counter = itertools.count(1)
        self._changing = Lock()  # of names: none changes once the folder is let go of
        self._closed = False

    def names(self) -> list[str]:
        self._own()
        if not self._folder.is_dir():
            return []
        return sorted(path.name for path in self._folder.iterdir() if is_run_name(path.name))

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        require_run_name(name)
        temporary = self._folder / f"{name}.{self._epoch}-{next(self._counter)}{TEMPORARY}"
        try:
            with self._changing:
                self._own()
                make_folders(self._disk, self._folder)
            self._write(temporary, pieces)
            with self._changing:
                self._own()
                self._disk.rename(temporary, self._folder / name)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._disk.unlink(temporary)
            if isinstance(error, OSError) and error.errno in FULL:
                raise LedgerFull(f"no room for run {name} ({error}); make room, it is tried again") from error
            raise
        self._disk.sync_folder(self._folder)

    def _write(self, path: Path, pieces: Iterable[bytes]) -> None:
        fd, end, synced = self._disk.create(path), 0, 0
        try:
            for piece in pieces:
                self._disk.write(fd, [piece], end)
                end += len(piece)
                if end - synced >= SYNC_BYTES:
                    self._own()
                    self._disk.sync(fd)
                    synced = end
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def open(self, name: str) -> memoryview:
        """Implements the port's `Runs.open`. A later read error of the disk ends the process (`Disk.map`)."""
        self._own()
        if not is_run_name(name):
            raise KeyError(name)
        try:
            return self._disk.map(self._folder / name)
        except FileNotFoundError as error:
            raise KeyError(name) from error

    def remove(self, name: str) -> None:
        if not is_run_name(name):
            return
        with self._changing:
            self._own()
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(self._folder / name)

    def remove_unfinished(self) -> None:
        """Removes incomplete files of an earlier owner. Raises LedgerFenced; LedgerDown or LedgerFull if the disk
        failed.
        """
        self._own()
        with ledger_errors(f"the folder of runs {self._folder}"):
            for path in self._folder.glob(f"*{TEMPORARY}"):
                self._disk.unlink(path)

    def close(self) -> None:
        """Rejects all further changes, including those of other threads."""
        with self._changing:
            self._closed = True

    def _own(self) -> None:
        if self._closed:
            raise LedgerFenced("this ledger was closed; nothing was written: open it anew")
        self._require_owner()


class LocalRunFolders:
    """Implements `ports.RunFolders` below a data folder: `<data>/<namespace>/0/runs`. disk: for tests."""

    def __init__(self, data: Path, disk: Disk | None = None) -> None:
        self._data = data.absolute()
        self._disk = disk or Disk()

    @asynccontextmanager
    async def open(self, namespace: str, opened: OpenLedger) -> AsyncIterator[LocalRuns]:
        folder = self._data / namespace / SHARD_NAME / RUNS_NAME
        runs = LocalRuns(self._disk, folder, opened.history.epoch, opened.require_owner)
        try:
            await finished(asyncio.to_thread(runs.remove_unfinished))
            yield runs
        finally:
            await finished(asyncio.to_thread(runs.close))


class MemoryRuns:
    """Implements `ports.Runs` over a dict that outlives the object.
    require_owner: raises LedgerFenced for an old owner.
    """

    def __init__(self, files: dict[str, bytes], require_owner: Callable[[], None]) -> None:
        self._files = files
        self._require_owner = require_owner

    def names(self) -> list[str]:
        self._require_owner()
        return sorted(self._files)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        require_run_name(name)
        self._require_owner()
        data = b"".join(pieces)
        self._require_owner()
        self._files[name] = data

    def open(self, name: str) -> memoryview:
        self._require_owner()
        return memoryview(self._files[name])

    def remove(self, name: str) -> None:
        self._require_owner()
        self._files.pop(name, None)


class MemoryRunFolders:
    """Implements `ports.RunFolders` in memory, with a dict for each namespace.
    files: their bytes, by namespace and name.
    """

    def __init__(self) -> None:
        self.files: dict[str, dict[str, bytes]] = defaultdict(dict)

    @asynccontextmanager
    async def open(self, namespace: str, opened: OpenLedger) -> AsyncIterator[MemoryRuns]:
        """Implements the port's `RunFolders.open`; writes of other threads fail once the ledger's owner has ended."""
        yield MemoryRuns(self.files[namespace], opened.require_owner)
