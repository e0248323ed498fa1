"""Moves old ids out of memory while the shard serves: writes them to archives, then to sorted run files, then drops
them from the table.

No step of a round changes an answer:

    pick, gather    copies the oldest done and taken ids, segment by segment
    append          appends them as archives, durable
    run             sorts and writes them in a thread, with a filter; lookups now find them there too
    drop            removes them from the table

A refusal or a crash may end the round after any step. The next round puts durable ids without a run into one, and drops
ids again that are both in a run and in the table. Until then nothing retires. The write rate of threads is limited, so
that the disk stays available for requests.
"""

import asyncio
from collections.abc import Callable, Sequence

from oncegate.arraytypes import U64
from oncegate.core.errors import LedgerFull, OncegateError, TooLarge
from oncegate.engine.commit.journal import Journal
from oncegate.engine.failures import error_fields
from oncegate.engine.maintenance import archive_log
from oncegate.engine.maintenance.compaction import RunBuilder, to_merge
from oncegate.engine.maintenance.run_files import RunFiles
from oncegate.engine.maintenance.snapshotter import Snapshotter
from oncegate.index.claims.evict import Gathered, Picked, drop, gather, parts_of, pick, unpin
from oncegate.index.lsm.archives import Archive
from oncegate.index.lsm.tier import RUNS_MAX
from oncegate.ports import Clock, Mark, Outputs


class Stopped(Exception):
    """Raised in a thread whose work was cancelled."""


class RateLimit:
    """A rate limit in bytes per second for one thread at a time, which allows a burst of one second. Made on the event
    loop."""

    def __init__(self, clock: Clock, bytes_per_second: int) -> None:
        self._clock = clock
        self._rate = bytes_per_second
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._since_ms = clock.monotonic_ms()
        self._spent = 0

    def spend(self, size_bytes: int) -> None:
        """Blocks the thread until `size_bytes` more may be written. Raises Stopped."""
        self._spent += size_bytes
        due_ms = self._since_ms + 1_000 * (self._spent - self._rate) // self._rate
        wait_ms = due_ms - self._clock.monotonic_ms()
        if wait_ms > 0 and not self._stop.is_set():
            asyncio.run_coroutine_threadsafe(self._rest(wait_ms), self._loop).result()
        if self._stop.is_set():
            raise Stopped

    async def _rest(self, wait_ms: int) -> None:
        sleeping = {asyncio.ensure_future(self._clock.sleep_ms(wait_ms)), asyncio.ensure_future(self._stop.wait())}
        try:
            await asyncio.wait(sleeping, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in sleeping:
                one.cancel()

    def stop(self) -> None:
        """Stops the thread's work at its next piece; called on the event loop."""
        self._stop.set()


# Delay before a retry after a failure or a lack of room.
EVICT_AGAIN_MS = 10_000
# A round frees 1/8 of the limit of hot ids; a late one evicts at most 1/4 of the limit.
_ROUND, _ROUND_MAX = 8, 4
# Steps of forgetting before a round: each forgets some claims that ended two leases ago. A claim that can still be
# named keeps its ids in memory.
_FORGETTING = 16
# Slots dropped per turn of the event loop: some 1 ms if each is a cache miss.
_DROPPED_AT_ONCE = 8_192


class Eviction:
    """The eviction task of one shard: a single task on the shard's event loop, which runs until no work is left."""

    def __init__(self, journal: Journal, outputs: Outputs, files: RunFiles, snapshotter: Snapshotter) -> None:
        self._journal = journal
        self._snapshotter = snapshotter
        self._claims = journal.index.claims
        self.outputs = outputs
        self._rate_limit = RateLimit(journal.clock, journal.limits.merge_bytes_per_second)
        self._run_builder = RunBuilder(outputs, files, self._rate_limit.spend, journal.limits.run_ids)
        self._files = files
        self._task: asyncio.Task[None] | None = None
        self._closing = self._moving = False
        self._from_ms = 0
        # The error of the last round; empty: it succeeded.
        self.error = ""
        # Called when no round is under way, for work that must not run during one.
        self.between_rounds: Callable[[], None] = _nothing
        self._claims.cold.when_damaged = self.step
        snapshotter.before_compaction = self._bind

    @property
    def working(self) -> bool:
        """Returns whether the task is running, including merges."""
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Returns whether an eviction round is under way or unfinished; until it ends, no id may retire and no snapshot
        may start.

        A merge does not count: ids that retire during it are left out of the next one.
        """
        return self._moving or any(archive.dropped < archive.ids for archive in self._claims.archives.live)

    def step(self) -> None:
        """Starts the task if there is work. May be called at any time."""
        claims = self._claims
        if claims.ids <= self._journal.limits.hot_ids and not claims.archives.live and not claims.cold.runs:
            return  # nothing to do, as in most namespaces: saves a task
        if not self._closing and not self.working and self._journal.clock.monotonic_ms() >= self._from_ms:
            self._task = asyncio.create_task(self._work(), name=f"eviction of {self._journal.namespace}")

    async def close(self) -> None:
        """Stops the work at its next piece and waits for its thread."""
        self._closing = True
        self._rate_limit.stop()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _bind(self, mark: Mark) -> None:
        """Binds the run files to a ledger position that survives a compaction, which drops older positions."""
        if runs := self._claims.cold.runs:
            await asyncio.to_thread(self._files.bind, runs, mark)

    async def _work(self) -> None:
        journal = self._journal
        try:
            while not self._closing and await self._one():
                if not self.busy:
                    self.between_rounds()
            self.error = ""
        except Stopped:
            return
        except Exception as error:
            why = error_fields(error)
            self.error, self._from_ms = str(why["error"]), journal.clock.monotonic_ms() + EVICT_AGAIN_MS
            journal.observer.event("eviction_failed", namespace=journal.namespace, **why)

    async def _one(self) -> bool:
        """Does the most urgent piece of work; returns False if there is none."""
        claims, cold = self._claims, self._claims.cold
        if idle := cold.idle():
            cold.replace(idle, [])
            await asyncio.to_thread(self._files.remove, idle)
            return True
        gone = to_merge([(cold.live_ids(run), run.run.size) for run in cold.runs])
        if gone is not None and not cold.missing():
            await self._merge(gone)
            return True
        self._moving = True
        try:
            if missing := cold.missing():
                await self._mend(missing)
                return True
            if undropped := [archive for archive in claims.archives.live if archive.dropped < archive.ids]:
                return await self._drop_again(undropped)
            return await self._evict()
        finally:
            self._moving = False

    async def _mend(self, missing: Sequence[Archive]) -> None:
        """Rebuilds runs that are damaged or missing."""
        cold, gone = self._claims.cold, self._claims.cold.damaged()
        tier_index = cold.runs.index(gone[0]) if gone else len(cold.runs)
        event = {"archives": len(missing), "runs": [str(run) for run in gone]}
        self._journal.observer.event("building_runs", namespace=self._journal.namespace, **event)
        made = await self._run_builder.of_archives(missing, tier_index)
        cold.replace(gone, made)
        await asyncio.to_thread(self._files.remove, gone)

    async def _drop_again(self, undropped: Sequence[Archive]) -> bool:
        async for archive, ids in archive_log.read(self.outputs, undropped):
            if not await self._drop([(archive, ids)]):
                return False
        return True

    async def _merge(self, gone: slice) -> None:
        cold = self._claims.cold
        runs = cold.runs[gone]
        made = await self._run_builder.merged(runs, self._claims.archives, gone.start)
        if made is not None:
            cold.replace(runs, [made])
            await asyncio.to_thread(self._files.remove, runs)

    async def _evict(self) -> bool:
        journal, claims, limit = self._journal, self._claims, self._journal.limits.hot_ids
        can = journal.group_commit.open and not self._snapshotter.compacting and len(claims.cold.runs) < RUNS_MAX
        if claims.ids <= limit or not can:
            return False
        for _ in range(_FORGETTING):
            claims.registry.forget_due(journal.clock.monotonic_ms(), early=True)
        surplus = min(claims.ids - limit + limit // _ROUND, max(1, limit // _ROUND_MAX))
        picked = pick(claims, max(1, surplus), journal.index.settings.buckets)
        if picked is None:
            return False
        try:
            if picked.ids * _ROUND_MAX < surplus:
                return False
            return await self._round(picked)
        finally:
            unpin(claims, picked)

    async def _round(self, picked: Picked) -> bool:
        made, refused = await self._append(picked)
        if made:
            run = await self._run_builder.of_records(made, len(self._claims.cold.runs))
            ids = sum(archive.ids for archive, _ in made)
            self._claims.cold.replace([], [run])
            await self._drop(made)
            event = {"ids": ids, "hot_ids": self._claims.ids}
            self._journal.observer.event("evicted", namespace=self._journal.namespace, **event)
        if refused is not None:
            raise refused
        return True

    async def _append(self, picked: Picked) -> tuple[list[tuple[Archive, U64]], OncegateError | None]:
        """Appends the selected ids as archives; returns the durable archives, and the error that stopped the others."""
        made: list[tuple[Archive, U64]] = []
        gathered: list[Gathered] = []
        segments = len(self._claims.table.slots.base)
        for segment in range(segments):
            gathered.append(gather(self._claims, picked, segment))
            size_bytes = archive_log.ID_BYTES * sum(len(one.ids) for one in gathered)
            if size_bytes and (size_bytes >= self._journal.limits.seal_bytes or segment == segments - 1):
                parts = await asyncio.to_thread(parts_of, picked, gathered)
                gathered = []
                try:
                    self._journal.group_commit.check()
                    position, given = archive_log.record(self._journal, parts)
                    await self._journal.group_commit.durable(position)
                except (LedgerFull, TooLarge) as error:
                    return made, error
                made += given
            await self._journal.clock.sleep_ms(0)
        return made, None

    async def _drop(self, made: list[tuple[Archive, U64]]) -> bool:
        """Drops ids from the table. Removes each archive from the list first, so that memory is freed gradually.

        Returns False if a snapshot or `close` interrupts it; a later round continues.
        """
        while made:
            archive, ids = made.pop(0)
            for first in range(0, len(ids), _DROPPED_AT_ONCE):
                if self._snapshotter.compacting or self._closing:
                    return False
                archive.dropped += drop(self._claims, ids[first : first + _DROPPED_AT_ONCE])
                await self._journal.clock.sleep_ms(0)
            archive.dropped = archive.ids
        return True


def _nothing() -> None:
    return None
