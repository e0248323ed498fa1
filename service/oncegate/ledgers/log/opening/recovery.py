"""Opening a ledger: verification without changes, then repair and ownership.

1. Walk and verify every frame; apply the output changes.
2. Check that id, key and witness agree with the frames.
3. Check that every named output file reaches its last range.   --- nothing is changed up to here ---
4. Copy the last segment without its unacknowledged end, sync, read back, rename. The last owner may have died
   of a failed sync, and the walk may have read the page cache instead of the disk.
5. Start the new epoch with a new segment.
6. Record it in the witness.
7. Remove segments before the last compaction and files that are no longer needed, unless a process holds them.
   Move files that no frame ever named to `aside`; they are removed some openings later.

`replayed` reads entries back from the files later, and verifies them again.
"""

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from oncegate.core.errors import KeyMismatch, LedgerDamaged
from oncegate.ledgers.disk import TEMPORARY, Disk, replace_file
from oncegate.ledgers.log.files.frames import NO_LEDGER, Compacted, SegmentHeader
from oncegate.ledgers.log.files.garbage import removable, remove_segments
from oncegate.ledgers.log.files.keys import key_check, read_key
from oncegate.ledgers.log.files.outputs import outputs_in, require_reach
from oncegate.ledgers.log.files.segments import Frame, SegmentWriter, Walk, segment_path
from oncegate.ledgers.log.files.snapshots import read_snapshot
from oncegate.ledgers.log.opening.scan import Scan, frame_body, frame_mark
from oncegate.ledgers.witness import ACCEPT, End, WitnessRecord, WitnessWriter, read_witness
from oncegate.ports import Mark, Replayed

OUTPUTS_NAME = "outputs"
ASIDE_NAME = "aside"
RUNS_NAME = "runs"
SHARD_NAME = "0"
ASIDE_EPOCHS = 16  # number of openings for which a file stays in `aside` for inspection


@dataclass(frozen=True)
class LedgerPaths:
    """The paths of one ledger, and the id under which it is listed."""

    namespace: str
    folder: Path
    witness: Path
    ledger: bytes

    @property
    def shard(self) -> Path:
        return self.folder / SHARD_NAME

    @property
    def outputs(self) -> Path:
        return self.shard / OUTPUTS_NAME

    @property
    def runs(self) -> Path:
        return self.shard / RUNS_NAME


@dataclass
class Found:
    """The result of `inspect`: the verified state of a ledger."""

    key: bytes
    walk: Walk
    header: SegmentHeader
    mark: Mark
    scan: Scan
    seen: WitnessRecord | None


def inspect(disk: Disk, paths: LedgerPaths, *, accepting: bool = False) -> Found:
    """Reads and verifies a ledger without changing anything (steps 1 to 3 of an opening).
    Raises LedgerDamaged, KeyMismatch.

    `accepting` skips the comparison with the witness and the list of ledgers.
    """
    key = read_key(disk, paths.folder)
    seen = None if accepting else read_witness(disk, paths.witness)
    walk = Walk(disk, paths.shard, watched=frozenset({(seen.end.segment, seen.end.offset)} if seen else ()))
    scan = Scan(disk, paths.shard, paths.outputs)
    for _ in scan.over(walk):
        pass
    header = walk.last
    assert header is not None, "a walk without an error has read a header"
    _require_key(paths, header, key)
    if seen:
        _require_listed(paths, header)
        require_witnessed(paths, walk, seen)
    require_reach(disk, paths.outputs, scan.locations())
    for _ in read_snapshot(disk, paths.outputs, scan.compacted.state if scan.compacted else ()):
        pass
    return Found(key, walk, header, scan.mark or Mark(header.ledger, 0, bytes(8)), scan, seen)


def _require_key(paths: LedgerPaths, header: SegmentHeader, key: bytes) -> None:
    if header.key_check != key_check(key):
        raise KeyMismatch(
            f"the key file in {paths.folder} is not the one its ledger was written with, and every id would look new; "
            "nothing was changed, put the right key file back"
        )


def _require_listed(paths: LedgerPaths, header: SegmentHeader) -> None:
    if header.ledger != paths.ledger:
        raise LedgerDamaged(
            f"{paths.shard} holds ledger {header.ledger.hex()}, and the list of ledgers says {paths.ledger.hex()}; "
            f"nothing was changed, put the folder back that belongs here, or {ACCEPT}"
        )


def require_witnessed(paths: LedgerPaths, walk: Walk, seen: WitnessRecord) -> None:
    """Raises LedgerDamaged unless the ledger contains the end that its witness recorded, with the same hash chain."""
    end = walk.end
    if seen.ledger != paths.ledger:
        raise LedgerDamaged(
            f"the witness {paths.witness} is of ledger {seen.ledger.hex()}, {paths.shard} holds {paths.ledger.hex()}; "
            "nothing was changed, name the right witness"
        )
    here = f"{paths.shard} ends at position {end.position} (segment {end.segment}, byte {end.offset})"
    there = f"position {seen.end.position} (segment {seen.end.segment}, byte {seen.end.offset})"
    if (end.segment, end.offset) < (seen.end.segment, seen.end.offset):
        raise LedgerDamaged(
            f"{here}, and its witness {paths.witness} saw {there}: {seen.end.position - end.position} acknowledged "
            f"entries would be forgotten; nothing was changed, put the newer copy back, or {ACCEPT}"
        )
    if walk.chains.get((seen.end.segment, seen.end.offset)) != seen.end.chain:
        raise LedgerDamaged(
            f"{here}, but at {there} it is not what its witness {paths.witness} saw: an older copy that went on; "
            f"nothing was changed, put the right copy back, or {ACCEPT}"
        )


@dataclass
class Owned:
    """The open files of a repaired ledger in its new epoch."""

    segment: SegmentWriter
    witness: WitnessWriter


def repair(disk: Disk, paths: LedgerPaths, found: Found) -> Owned:
    """Repairs a ledger and starts its new epoch (steps 4 to 7 of an opening).

    On NoRoom and OSError the ledger is unchanged or repaired; nothing acknowledged is lost.
    """
    copy_last_segment(disk, paths, found)
    serial = found.seen.serial if found.seen else 0
    with ExitStack() as on_error:
        segment = begin_epoch(disk, paths, found)
        on_error.callback(segment.close)
        witness = WitnessWriter(disk, paths.witness, paths.ledger, segment.header.epoch, serial)
        on_error.callback(witness.close)
        witness.pin(segment.end)
        _tidy(disk, paths, found, segment.header.epoch)
        on_error.pop_all()
    return Owned(segment, witness)


def copy_last_segment(disk: Disk, paths: LedgerPaths, found: Found) -> None:
    """Rewrites the last segment (step 4 of an opening) from the bytes just verified; a second read might differ."""
    end = found.walk.end
    whole = memoryview(found.walk.last_data)[: end.offset]
    replace_file(disk, segment_path(paths.shard, end.segment), [whole])
    found.walk.last_data = b""


def begin_epoch(disk: Disk, paths: LedgerPaths, found: Found) -> SegmentWriter:
    """Creates the first segment of a new epoch (step 5 of an opening).
    If the ledger's id changes, its header records the old id.
    """
    end = found.walk.end
    header = SegmentHeader(
        segment=end.segment + 1,
        epoch=found.header.epoch + 1,
        first_position=end.position + 1,
        ledger=paths.ledger,
        predecessor=NO_LEDGER if paths.ledger == found.header.ledger else found.header.ledger,
        key_check=found.header.key_check,
        previous_chain=end.chain,
    )
    return SegmentWriter(disk, paths.shard, header)


def _tidy(disk: Disk, paths: LedgerPaths, found: Found, epoch: int) -> None:
    """Removes unneeded files (step 7 of an opening). Files that no frame names are kept, moved aside:
    they may help to find out what was never acknowledged.
    """
    in_use = {needed.file for needed in found.scan.locations()}
    idle = {file: path for file, path in outputs_in(paths.outputs).items() if file not in in_use}
    with removable(paths.outputs) as free:
        if free:
            for path in [path for file, path in idle.items() if file in found.scan.named]:
                disk.unlink(path)
            if found.scan.compacted:
                remove_segments(disk, paths.shard, found.scan.compacted.segment)
    _move_aside(disk, paths, [path for file, path in idle.items() if file not in found.scan.named], epoch)
    for folder in (paths.shard, paths.outputs):
        for path in folder.glob(f"*{TEMPORARY}"):
            disk.unlink(path)


def _move_aside(disk: Disk, paths: LedgerPaths, files: list[Path], epoch: int) -> None:
    aside = paths.shard / ASIDE_NAME
    for (made, _), path in outputs_in(aside).items():
        if made < epoch - ASIDE_EPOCHS:
            disk.unlink(path)
    for path in files:
        disk.rename(path, aside / path.name)
    if files:
        disk.sync_folder(paths.outputs)
        disk.sync_folder(aside)


@dataclass(frozen=True, slots=True)
class Extent:
    """The readable part of a ledger: its segments since the last compaction, up to a verified end."""

    compacted: Compacted | None
    headers: Sequence[SegmentHeader]
    end: End

    @property
    def position(self) -> int:
        """Position up to which entries are compacted; 0 if there was no compaction."""
        return self.compacted.position if self.compacted else 0


def replayed(
    disk: Disk, shard: Path, outputs: Path, extent: Extent, from_position: int
) -> Generator[Replayed, None, None]:
    """Yields the entries at or after a position, as `ports.Ledger.replay` does. Blocks.
    Raises LedgerDamaged, OSError.
    """
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
    """Returns the ledger position of the append that ended at `position`. Blocks.

    Raises ValueError if no append ended there or it is compacted away.
    """
    if extent.compacted and position == extent.compacted.position:
        return extent.compacted.mark
    if extent.position < position <= extent.end.position:
        for frame in _frames(disk, shard, extent, position):
            if frame.header.last_position == position:
                return frame_mark(frame)
            break
    raise ValueError(f"no append that is still known ended at position {position}")


def _frames(disk: Disk, shard: Path, extent: Extent, from_position: int) -> Iterator[Frame]:
    """Yields the frames with entries at or after a position."""
    firsts = [header.first_position for header in extent.headers]
    first = extent.headers[max(0, bisect_right(firsts, from_position) - 1)].segment
    for frame in Walk(disk, shard, first_segment=first, stop=extent.end):
        if frame.header.count and frame.header.last_position >= from_position:
            yield frame
