"""Reading a whole data folder to see that it is whole. Owns nothing, changes nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from oncegate.core.errors import LedgerFenced
from oncegate.ledgers.log.data_dir import DataDir, told
from oncegate.ledgers.log.disk import Disk
from oncegate.ledgers.log.files.garbage import held
from oncegate.ledgers.log.files.outputs import require_range
from oncegate.ledgers.log.opening.recovery import Found, LedgerPlace, inspect
from oncegate.ledgers.log.opening.replay import Extent, replayed
from oncegate.ports import Chunk, Mark, OutputChange, Replayed, State


class ReadLedger:
    """`ports.Ledger` that can only be read: what was verified, and nothing that came later."""

    def __init__(self, disk: Disk, place: LedgerPlace, found: Found) -> None:
        self._disk = disk
        self._place = place
        self._extent = Extent(found.fold.compacted, found.fold.headers, found.walk.end)
        self._catalog = found.fold.catalog
        self.key = found.key
        self.predecessors = found.fold.predecessors
        self._mark = found.mark

    @property
    def mark(self) -> Mark:
        return self._mark

    def replay(self, from_position: int) -> Iterable[Replayed]:
        """As the port says; LedgerDamaged. Blocks."""
        return replayed(self._disk, self._place.shard, self._place.outputs, self._extent, from_position)

    async def fetch(self, topic: str, partition: int, offset: int, max_rows: int, max_bytes: int) -> list[Chunk]:
        """As the port says; blocks."""
        found = self._catalog.find(topic, partition, offset, max_rows, max_bytes)
        outputs = self._place.outputs
        return [Chunk(held.first_offset, held.rows, require_range(self._disk, outputs, held.place)) for held in found]

    async def append(self, entries: Sequence[bytes], outputs: Sequence[OutputChange]) -> Mark:
        """LedgerFenced, always."""
        raise LedgerFenced("this ledger was opened to be read only")

    async def compact(self, position: int, state: State) -> None:
        """LedgerFenced, always."""
        raise LedgerFenced("this ledger was opened to be read only")


@dataclass(frozen=True)
class Verified:
    """A ledger that is whole. `collected`: up to which position; `ranges`: output ranges whose bytes were read."""

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
    also: Callable[[ReadLedger], None] = lambda ledger: None,
) -> Iterator[Verified]:
    """Each ledger whose every byte was read and is right; `also` may look at what its entries mean.

    Lists, witness, frames, chain, state, output ranges. Without the lock: what is appended meanwhile is not looked
    at, and nothing is removed meanwhile. NotFound; LedgerDamaged, KeyMismatch at the first contradiction.
    """
    data = DataDir(folder, witness, disk or Disk())
    data.look()
    for namespace in sorted(data.ledgers):
        place = data.place(namespace)
        with told(data.shown), held(place.outputs):
            found = inspect(data.disk, place)
            ranges, range_bytes = verify_ranges(data.disk, place, found)
            also(ReadLedger(data.disk, place, found))
        compacted = found.fold.compacted.position if found.fold.compacted else 0
        segments = len(found.fold.headers)
        yield Verified(namespace, place.ledger, found.mark.position, compacted, segments, ranges, range_bytes)


def verify_ranges(disk: Disk, place: LedgerPlace, found: Found) -> tuple[int, int]:
    """Read every output range that something names; how many, and their bytes. LedgerDamaged."""
    count = size_bytes = 0
    for location in found.fold.catalog.places():
        require_range(disk, place.outputs, location)
        count += 1
        size_bytes += location.length
    return count, size_bytes
