"""Restores the cold tier at a start: drops evicted ids from the table during the replay, and ensures that every live
archive is in a run file before the shard serves."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress

from oncegate.arraytypes import U64
from oncegate.core.entries.kinds import Entry, Evicted
from oncegate.core.errors import LedgerDown, OffsetTrimmed
from oncegate.engine.limits import Limits
from oncegate.engine.maintenance import archive_log
from oncegate.engine.maintenance.compaction import RunBuilder
from oncegate.engine.maintenance.run_files import RunFiles
from oncegate.index.claims.evict import drop
from oncegate.index.claims.store import ClaimStore
from oncegate.index.lsm.archives import Archive, total
from oncegate.ports import Observer, Outputs

# Interval at which a thread that waits for the event loop checks that the loop is running.
_LOOK_S = 1.0


class Dropping:
    """A replay hook that drops evicted ids from the table at the entry of their eviction, so that the table never grows
    larger than before the restart.

    Made on the event loop, called in the replaying thread. A trimmed archive has retired: a later `Retired` entry
    removes its ids.
    """

    def __init__(self, claims: ClaimStore, outputs: Outputs) -> None:
        self._claims = claims
        self._outputs = outputs
        self._loop = asyncio.get_running_loop()

    def __call__(self, _position: int, entry: Entry) -> None:
        if not isinstance(entry, Evicted):
            return
        sealed = self._claims.archives
        numbers = range(sealed.next_number - len(entry.archives), sealed.next_number)
        with suppress(OffsetTrimmed):
            for archive, ids in self._read([sealed.by_number[number] for number in numbers]):
                drop(self._claims, ids)
                archive.dropped = archive.ids

    def _read(self, archives: Sequence[Archive]) -> list[tuple[Archive, U64]]:
        """Reads archives on the event loop. Raises LedgerDown if the loop ends first."""
        reading = asyncio.run_coroutine_threadsafe(self.read_all(archives), self._loop)
        while self._loop.is_running():
            with suppress(NotYet):
                return reading.result(_LOOK_S)
        raise LedgerDown("the gateway ended while it read its ledger; nothing was written")

    async def read_all(self, archives: Sequence[Archive]) -> list[tuple[Archive, U64]]:
        """Returns each archive with its ids, uint64 (n, 2). Raises LedgerDamaged, OffsetTrimmed."""
        return [item async for item in archive_log.read(self._outputs, archives)]


async def open_runs(
    claims: ClaimStore, outputs: Outputs, files: RunFiles, limits: Limits, observer: Observer, namespace: str
) -> None:
    """Opens the existing run files, and rebuilds those that are missing, damaged or of a different version.

    Raises LedgerDamaged, LedgerDown; LedgerFull, OSError if there is no room for the runs.
    """
    cold, sealed = claims.cold, claims.archives
    cold.replace([], await asyncio.to_thread(files.open_all, [archive.number for archive in sealed.live]))
    missing = cold.missing()
    if missing:
        ids = total(missing)

        def progress(done: int) -> None:
            observer.event("building_runs", namespace=namespace, ids=ids, done=done)

        progress(0)
        run_builder = RunBuilder(outputs, files, lambda _: None, limits.run_ids)
        cold.replace([], await run_builder.of_archives(missing, len(cold.runs), progress))
    for archive in sealed.live:
        if archive.dropped < archive.ids:
            for read, records in await Dropping(claims, outputs).read_all([archive]):
                drop(claims, records)
                read.dropped = read.ids
