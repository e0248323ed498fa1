"""The ledgers of one data folder: opened, created, and kept up by one clock, in threads that they share."""

import asyncio
import contextlib
import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from oncegate.clock import sleep_s
from oncegate.core.errors import LedgerDown, LedgerFull
from oncegate.ledgers.disk import FULL, Disk
from oncegate.ledgers.log.data_dir import DataDir, ledger_errors
from oncegate.ledgers.log.files.outputs import OpenStreams
from oncegate.ledgers.log.ledger import LogLedger
from oncegate.ledgers.log.locks import FolderLock
from oncegate.ledgers.log.opening.recovery import Found, Owned, inspect, repair
from oncegate.ledgers.log.reserve import Reserve
from oncegate.ledgers.log.strands import Strand, reading_threads, writing_threads
from oncegate.ports import History, OpenLedger, Storage

# How long a witness may lag behind its ledger, where the power fails.
WITNESS_SYNC_S = 1.0
# How often it is looked whether the folders are still there: a look is three calls of the system a ledger, so that a
# thousand cost some milliseconds, and a second is not over before what it finds is told.
LOOK_S = 0.5
# Of the files that the process may have open: those that topics are appended to.
STREAMS_SHARE = 8
MIB = 1 << 20
T = TypeVar("T")


async def finished(work: Awaitable[T], undo: Callable[[T], None] | None = None) -> T:
    """Wait for the end of `work` even when the caller is cancelled, and then take its result back."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if undo is not None and not task.cancelled() and task.exception() is None:
            undo(task.result())
        raise


class FolderStorage(Storage):
    """Implements `ports.Storage` of one ledger over the data folder that holds it."""

    def __init__(self, folder: DataDir, lock: FolderLock, reserve: Reserve) -> None:
        self._folder = folder
        self._lock = lock
        self._reserve = reserve

    def require_lock(self) -> None:
        """Implements the port's `Storage.require_lock`: of the data folder, then of the ledger's own."""
        self._folder.require()
        self._lock.require()

    def free_bytes(self) -> tuple[int, int]:
        """Implements the port's `Storage.free_bytes`, of the data folder; LedgerFenced: gone; LedgerDown."""
        self._folder.require()
        with ledger_errors(self._folder.shown):
            stat = os.statvfs(self._folder.root)
            free = -self._reserve.missing_bytes() if self._reserve.released else stat.f_bavail * stat.f_frsize
        return (free, stat.f_blocks * stat.f_frsize)


class LogLedgers:
    """Implements `ports.Ledgers` over one data folder."""

    def __init__(self, folder: DataDir, reserve: Reserve) -> None:
        self._folder = folder
        self._reserve = reserve
        self._changing = asyncio.Lock()
        # Whether anything was asked of them: until then nothing can be known by what is new.
        self.is_used = False
        self._due: set[LogLedger] = set()
        self._writing, self._reading = writing_threads(), reading_threads()
        self._streams = OpenStreams(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // STREAMS_SHARE)
        self._keeping: set[asyncio.Task[None]] = set()
        self._keeper = asyncio.create_task(self._keep_up(), name="witnesses")
        self._open: set[LogLedger] = set()
        # One thread, of its own: while a disk hangs, nothing else waits for a look.
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="looking")
        self._looker = asyncio.create_task(self._look(), name="looks at folders")

    def names(self) -> list[str]:
        return sorted(self._folder.ledgers)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Implements the port's `Ledgers.create`; BadRequest when it cannot be a name."""
        self.is_used = True
        async with self._changing:
            if namespace not in self._folder.ledgers:
                self._require_room()
            await finished(asyncio.to_thread(self._folder.create, namespace, key))

    def _require_room(self) -> None:
        if self._reserve.released:
            with ledger_errors(self._folder.shown):
                missing_bytes = self._reserve.missing_bytes()
            raise LedgerFull(
                f"what room is left in {self._folder.shown} is kept for completes and releases; "
                f"{-(-missing_bytes // MIB)} MiB more must be free; nothing was made"
            )

    async def delete(self, namespace: str) -> None:
        """Implements the port's `Ledgers.delete`: its folder and its witness are moved aside, by `DataDir.delete`."""
        async with self._changing:
            await finished(asyncio.to_thread(self._delete, namespace))

    def _delete(self, namespace: str) -> None:
        try:
            self._folder.delete(namespace)
        except (LedgerFull, LedgerDown) as error:
            if getattr(error.__cause__, "errno", None) not in FULL:
                raise
            self._reserve.release()
            self._folder.delete(namespace)

    @asynccontextmanager
    async def open(self, namespace: str) -> AsyncIterator[OpenLedger]:
        """Implements the port's `Ledgers.open`; NotFound, KeyMismatch, LedgerFull and LedgerDown too: retry."""
        self.is_used = True
        paths = self._folder.paths(namespace)
        lock, found, owned = await finished(asyncio.to_thread(self._own, namespace), _disown)
        storage = FolderStorage(self._folder, lock, self._reserve)
        ledger = LogLedger(
            self._folder.disk,
            paths,
            found,
            owned,
            storage.require_lock,
            Strand(self._writing),
            self._due,
            self._streams,
            self._reserve,
            Strand(self._reading),
        )
        self._open.add(ledger)
        try:
            yield OpenLedger(
                ledger,
                found.key,
                History(ledger.epoch, ledger.predecessors, ledger.compacted_position),
                ledger.end,
                ledger,
                storage=storage,
            )
        finally:
            self._open.discard(ledger)
            await finished(_close(ledger, lock))
            self._due.discard(ledger)

    async def _keep_up(self) -> None:
        """One clock for all ledgers; one that nobody writes to costs nothing."""
        while True:
            await sleep_s(WITNESS_SYNC_S)
            if self._reserve.released:
                await asyncio.to_thread(self._reserve.refill)
            for ledger in [ledger for ledger in self._due if not ledger.kept_up]:
                self._due.discard(ledger)
                task = asyncio.create_task(ledger.keep_up(), name="witness")
                self._keeping.add(task)
                task.add_done_callback(self._keeping.discard)

    async def _look(self) -> None:
        """Looks at the folders while nothing is written that would find them lost; one look at a time."""
        loop = asyncio.get_running_loop()
        while True:
            await sleep_s(LOOK_S)
            with contextlib.suppress(RuntimeError):  # no thread can be had now
                await loop.run_in_executor(self._looking, _look_at, list(self._open))

    def _own(self, namespace: str) -> tuple[FolderLock, Found, Owned]:
        try:
            return self._own_now(namespace)
        except LedgerFull:
            if self._reserve.released:
                raise
            self._reserve.release()
            return self._own_now(namespace)

    def _own_now(self, namespace: str) -> tuple[FolderLock, Found, Owned]:
        with ledger_errors(self._folder.shown):
            self._folder.require()
            paths = self._folder.whole_paths(namespace)
            lock = FolderLock(paths.shard, f"ledger {paths.namespace} in {self._folder.shown}")
            try:
                found = inspect(self._folder.disk, paths)
                return lock, found, repair(self._folder.disk, paths, found)
            except BaseException:
                lock.close()
                raise

    async def close(self) -> None:
        """Lets go of the data folder; every ledger was closed before."""
        self._keeper.cancel()
        self._looker.cancel()
        await asyncio.wait([self._keeper, self._looker, *self._keeping])
        self._looking.shutdown(wait=False)
        try:
            for threads in (self._writing, self._reading):
                await asyncio.to_thread(threads.shutdown)
        finally:
            self._folder.release()


def _look_at(ledgers: list[LogLedger]) -> None:
    for ledger in ledgers:
        ledger.look()


def _disown(owning: tuple[FolderLock, Found, Owned]) -> None:
    lock, _, owned = owning
    owned.segment.close()
    owned.witness.close()
    lock.close()


async def _close(ledger: LogLedger, lock: FolderLock) -> None:
    try:
        await ledger.close()
    finally:
        lock.close()


@asynccontextmanager
async def open_log(
    folder: str,
    create: bool = False,
    witness: str | None = None,
    reserve_bytes: int = 0,
    disk: Disk | None = None,
) -> AsyncIterator[LogLedgers]:
    """Own the data folder until the context ends. Errors as `oncegate.ledgers.open_ledgers`; `disk` is for tests.

    A context that fails before anything was asked of the ledgers, as a start whose port is taken, leaves no folder that
    was not there before.
    """
    data = DataDir(folder, witness, disk or Disk())
    is_new = await finished(asyncio.to_thread(data.take, create), lambda _: data.release())
    reserve = Reserve(data.disk, data.root, reserve_bytes)
    await finished(asyncio.to_thread(reserve.refill), lambda _: data.release())
    ledgers = LogLedgers(data, reserve)
    try:
        yield ledgers
    except BaseException:
        if is_new and not ledgers.is_used:
            data.take_back()
        raise
    finally:
        await finished(ledgers.close())
