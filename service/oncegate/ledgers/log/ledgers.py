"""The ledgers of one data folder: opening, creation and periodic maintenance in shared threads."""

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

# Maximum lag of a witness behind its ledger after a power failure.
WITNESS_SYNC_S = 1.0
# Interval of the check that the folders still exist. A check is three system calls per ledger, so a thousand ledgers
# cost some milliseconds, and a lost folder is reported within a second.
LOOK_S = 0.5
# Divisor: this share (1/8) of the process's descriptor limit may be open output streams.
STREAMS_SHARE = 8
MIB = 1 << 20
T = TypeVar("T")


async def finished(work: Awaitable[T], undo: Callable[[T], None] | None = None) -> T:
    """Waits for `work` even if the caller is cancelled; in that case calls `undo` with the result of `work`."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if undo is not None and not task.cancelled() and task.exception() is None:
            undo(task.result())
        raise


class FolderStorage(Storage):
    """The implementation of `ports.Storage` for one ledger in its data folder."""

    def __init__(self, folder: DataDir, lock: FolderLock, reserve: Reserve) -> None:
        self._folder = folder
        self._lock = lock
        self._reserve = reserve

    def require_lock(self) -> None:
        """Implements the port's `Storage.require_lock`: checks the data folder's lock, then the ledger's."""
        self._folder.require()
        self._lock.require()

    def free_bytes(self) -> tuple[int, int]:
        """Implements the port's `Storage.free_bytes` for the data folder. Raises LedgerFenced (folder gone),
        LedgerDown.

        While the reserve is released, the free bytes are negative: minus the space missing until it can be taken again.
        """
        self._folder.require()
        with ledger_errors(self._folder.shown):
            stat = os.statvfs(self._folder.root)
            free = -self._reserve.missing_bytes() if self._reserve.released else stat.f_bavail * stat.f_frsize
        return (free, stat.f_blocks * stat.f_frsize)


class LogLedgers:
    """The implementation of `ports.Ledgers` over one data folder."""

    def __init__(self, folder: DataDir, reserve: Reserve) -> None:
        self._folder = folder
        self._reserve = reserve
        self._changing = asyncio.Lock()
        # True after the first `create` or `open`. Until then a new data folder can be removed without losing anything.
        self.is_used = False
        self._due: set[LogLedger] = set()
        self._writing, self._reading = writing_threads(), reading_threads()
        self._streams = OpenStreams(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // STREAMS_SHARE)
        self._keeping: set[asyncio.Task[None]] = set()
        self._keeper = asyncio.create_task(self._keep_up(), name="witnesses")
        self._open: set[LogLedger] = set()
        # A dedicated thread: if a disk hangs, only this check waits for it.
        self._looking = ThreadPoolExecutor(1, thread_name_prefix="looking")
        self._looker = asyncio.create_task(self._look(), name="looks at folders")

    def names(self) -> list[str]:
        return sorted(self._folder.ledgers)

    async def create(self, namespace: str, key: bytes | None = None) -> None:
        """Implements the port's `Ledgers.create`. Raises BadRequest for an invalid name."""
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
        """Implements the port's `Ledgers.delete`: moves folder and witness to DELETED (`DataDir.delete`)."""
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
        """Implements the port's `Ledgers.open`. Raises NotFound, KeyMismatch; retry LedgerFull and LedgerDown."""
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
        """Runs periodic maintenance for all ledgers; an idle ledger costs nothing."""
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
        """Checks periodically that the folders of open ledgers still exist, which idle ledgers would not notice."""
        loop = asyncio.get_running_loop()
        while True:
            await sleep_s(LOOK_S)
            with contextlib.suppress(RuntimeError):  # no thread is available; retried at the next tick
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
        """Releases the data folder. All ledgers must be closed before."""
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
    """Owns the data folder until the context ends. Raises as `oncegate.ledgers.open_ledgers`; `disk` is for tests.

    If the context fails before any ledger was created or opened (for example because the port is in use), a newly
    created data folder is removed again.
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
