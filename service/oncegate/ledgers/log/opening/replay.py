"""Entries read back from the files of a ledger, verified again."""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncegate.ledgers.disk import Disk
from oncegate.ledgers.log.files.frame_body import Compacted
from oncegate.ledgers.log.files.frames import SegmentHeader
from oncegate.ledgers.log.files.segments import Frame, Walk
from oncegate.ledgers.log.files.snapshots import read_snapshot
from oncegate.ledgers.log.opening.scan import frame_body, frame_mark
from oncegate.ledgers.witness import End
from oncegate.ports import Mark, Replayed


@dataclass(frozen=True, slots=True)
class Extent:
    """Bounds what of a ledger is read: the segments from the last compaction on, up to an end that was verified."""

    compacted: Compacted | None
    headers: Sequence[SegmentHeader]
    end: End

    @property
    def position(self) -> int:
        """The position up to which entries were compacted; 0 when none were."""
        return self.compacted.position if self.compacted else 0


def replayed(
    disk: Disk, shard: Path, outputs: Path, extent: Extent, from_position: int
) -> Generator[Replayed, None, None]:
    """Yields the entries from a position on, as `ports.Ledger.replay`; LedgerDamaged, OSError. Blocks."""
    compacted = extent.compacted
    if compacted and from_position <= compacted.position:
        for entry in read_snapshot(disk, outputs, compacted.state):
            yield Replayed(compacted.position, entry, compacted.mark)
    from_position = max(from_position, extent.position + 1)
    for frame in _frames(disk, shard, extent, from_position):
        mark = frame_mark(frame)
        for position, entry in enumerate(frame_body(frame).entries, frame.header.first_position):
            if position >= from_position:
                yield Replayed(position, entry, mark)


def mark_at(disk: Disk, shard: Path, extent: Extent, position: int) -> Mark:
    """Returns the mark of the append that ended at `position`; ValueError: none that is still known did. Blocks."""
    if extent.compacted and position == extent.compacted.position:
        return extent.compacted.mark
    if extent.position < position <= extent.end.position:
        for frame in _frames(disk, shard, extent, position):
            if frame.header.last_position == position:
                return frame_mark(frame)
            break
    raise ValueError(f"no append that is still known ended at position {position}")


def _frames(disk: Disk, shard: Path, extent: Extent, from_position: int) -> Iterator[Frame]:
    """Those that hold entries from a position on."""
    firsts = [header.first_position for header in extent.headers]
    first = extent.headers[max(0, bisect_right(firsts, from_position) - 1)].segment
    for frame in Walk(disk, shard, first_segment=first, stop=extent.end):
        if frame.header.count and frame.header.last_position >= from_position:
            yield frame
