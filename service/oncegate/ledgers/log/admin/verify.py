"""Verification of a whole data folder. Takes no ownership, changes nothing."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass

from oncegate.core.errors import KeyMismatch, LedgerDamaged, LedgerDown
from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.data_dir import DataDir, Refused, ledger_errors
from oncegate.ledgers.log.files.garbage import held
from oncegate.ledgers.log.files.outputs import require_range
from oncegate.ledgers.log.opening.recovery import Extent, Found, LedgerPaths, inspect, replayed
from oncegate.ledgers.log.opening.scan import read_ahead
from oncegate.ports import Replayed


class VerifiedLedger:
    """The entries of a verified ledger, as they were when it was verified. `mark`: its last ledger position."""

    def __init__(self, disk: Disk, paths: LedgerPaths, found: Found) -> None:
        self._disk = disk
        self._paths = paths
        self._extent = Extent(found.scan.compacted, found.scan.headers, found.walk.end)
        self.key = found.key
        self.mark = found.mark

    def entries(self) -> Generator[Replayed, None, None]:
        """Yields all entries in order. Blocks. Raises LedgerDamaged."""
        return replayed(self._disk, self._paths.shard, self._paths.outputs, self._extent, 1)

    async def batches(self) -> AsyncGenerator[list[Replayed], None]:
        """Yields all entries in batches, read ahead by a thread, as `ports.Ledger.replay` does."""
        with ThreadPoolExecutor(1, thread_name_prefix="reading") as thread:
            async with aclosing(read_ahead(self.entries(), lambda one: len(one.body), thread)) as batches:
                async for batch in batches:
                    yield batch


@dataclass(frozen=True)
class Verified:
    """The result for an intact ledger.

    `compacted`: last compacted position; `ranges`: number of output ranges that were read.
    """

    namespace: str
    ledger: bytes
    position: int
    compacted: int
    segments: int
    ranges: int
    range_bytes: int


def verify(
    folder: str,
    witness: str | None = None,
    disk: Disk | None = None,
    also: Callable[[VerifiedLedger], None] = lambda ledger: None,
    only: str | None = None,
) -> Iterator[Verified | Refused]:
    """Yields a result for each ledger, or `only` one: `Verified` if every byte is correct, otherwise `Refused`.

    Checks lists, witness, frames, chain, state and output ranges; `also` may check the meaning of entries. Takes no
    lock: later appends are not read, and files are not removed during verification. A ledger deleted in the meantime is
    left out. Raises NotFound; LedgerDamaged for the lists.
    """
    data = DataDir(folder, witness, disk or Disk())
    data.look()
    for namespace in data.chosen(only):
        try:
            yield _verify(data, namespace, also)
        except (LedgerDown, LedgerDamaged, KeyMismatch) as error:
            if not data.was_deleted(namespace):
                yield Refused(namespace, error)


def _verify(data: DataDir, namespace: str, also: Callable[[VerifiedLedger], None]) -> Verified:
    with ledger_errors(data.shown):
        paths = data.whole_paths(namespace)
    with ledger_errors(data.shown), held(paths.outputs):
        found = inspect(data.disk, paths)
        ranges, range_bytes = verify_ranges(data.disk, paths, found)
        also(VerifiedLedger(data.disk, paths, found))
    compacted = found.scan.compacted.position if found.scan.compacted else 0
    segments = len(found.scan.headers)
    return Verified(namespace, paths.ledger, found.mark.position, compacted, segments, ranges, range_bytes)


def verify_ranges(disk: Disk, paths: LedgerPaths, found: Found) -> tuple[int, int]:
    """Reads and verifies every referenced output range; returns their number and total bytes. Raises LedgerDamaged."""
    count = size_bytes = 0
    for location in found.scan.catalog.locations():
        require_range(disk, paths.outputs, location)
        count += 1
        size_bytes += location.length
    return count, size_bytes
