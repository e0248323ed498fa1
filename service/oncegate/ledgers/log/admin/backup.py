"""Backup of ledgers, also while a gateway serves them.

    <backup>/BACKUP                            the ledgers and the end of each copy; written last
    <backup>/<namespace>/key  0/00000001.seg  0/outputs/...

A backup is not a data folder: `oncegate restore` makes one from it, in which the ledgers have new ids.
"""

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from oncegate.core.errors import BadRequest, KeyMismatch, LedgerDamaged, LedgerDown, NotFound
from oncegate.ledgers.catalog import Location
from oncegate.ledgers.disk import Disk, make_folders, replace_file
from oncegate.ledgers.log.data_dir import BACKUP_NAME as LIST_NAME
from oncegate.ledgers.log.data_dir import DataDir, Refused, ledger_errors
from oncegate.ledgers.log.files.garbage import held
from oncegate.ledgers.log.files.keys import copy_key
from oncegate.ledgers.log.files.outputs import output_path, require_range
from oncegate.ledgers.log.files.segments import Walk, segment_path, segments_in
from oncegate.ledgers.log.opening.recovery import ASIDE_NAME, OUTPUTS_NAME, LedgerPaths, require_witnessed
from oncegate.ledgers.log.opening.scan import Scan
from oncegate.ledgers.witness import End, read_witness

_FIRST = "oncegate backup 1\n"
# Present on an empty file system.
LOST_FOUND = "lost+found"


@dataclass(frozen=True)
class Copied:
    """A ledger copied by a backup: its id, and the end of the copy."""

    namespace: str
    ledger: bytes
    end: End


def backup(
    folder: str, to: str, witness: str | None = None, disk: Disk | None = None, only: str | None = None
) -> list[Copied | Refused]:
    """Copies every ledger of a data folder, or `only` one, with all entries acknowledged so far.

    A gateway may serve the folder meanwhile.

    Nothing that the copy needs is removed during the copy, and every byte of it is verified. A ledger that cannot be
    read is not copied: it is returned as `Refused`, and the others are copied.

    Raises BadRequest (`to` is not empty, or is inside the data), NotFound, LedgerFull (the disk of `to`);
    LedgerDamaged, KeyMismatch or LedgerDown when no ledger could be copied. After an error the copy is removed. A
    killed process leaves a copy without a list, which cannot be restored.
    """
    data = DataDir(folder, witness, disk or Disk())
    target = Path(to).absolute()
    for source in (data.root, data.witness):
        if target.is_relative_to(source) or source.is_relative_to(target):
            raise BadRequest(f"the backup {target} and {source} lie in one another: name another folder")
    require_empty(target, "the backup")
    data.look()
    with ledger_errors(f"backup {target}"), ExitStack() as on_error:
        on_error.callback(_take_back, target, [path for path in (target, *target.parents) if not path.exists()])
        make_folders(data.disk, target)
        found = [one for name in data.chosen(only) for one in _backup_unless_deleted(data, name, target / name)]
        copied = [one for one in found if isinstance(one, Copied)]
        for one in found:
            if isinstance(one, Refused) and not copied:
                raise one.error
        write_copies(data.disk, target, copied)
        on_error.pop_all()
    return found


def _take_back(target: Path, made: list[Path]) -> None:
    """Removes an unfinished backup's files and the folders created for it, so that the backup can be retried."""
    with suppress(OSError):
        for path in target.iterdir():
            if path.name == LOST_FOUND:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        for folder in made:
            folder.rmdir()


def _backup_unless_deleted(data: DataDir, namespace: str, target: Path) -> list[Copied | Refused]:
    """Copies a ledger and returns the copy, or why it failed; returns an empty list if it was deleted meanwhile."""
    try:
        with ledger_errors(f"ledger {namespace} of {data.shown}, or its copy {target},"):
            return [_backup(data.disk, data.whole_paths(namespace), target)]
    except (LedgerDown, LedgerDamaged, KeyMismatch) as error:
        shutil.rmtree(target, ignore_errors=True)
        return [] if data.was_deleted(namespace) else [Refused(namespace, error)]


def _backup(disk: Disk, paths: LedgerPaths, target: Path) -> Copied:
    """Copies one ledger. After a power failure the witness may lag, so intact frames after its end are copied too."""
    with held(paths.outputs):
        seen = read_witness(disk, paths.witness)
        at = (seen.end.segment, seen.end.offset)
        walk = Walk(disk, paths.shard, first_segment=seen.end.segment, watched=frozenset({at}))
        for _ in walk:
            pass
        require_witnessed(paths, walk, seen)
        copy_ledger(disk, paths, walk.end, target)
    return Copied(paths.namespace, paths.ledger, walk.end)


def require_empty(path: Path, shown: str) -> None:
    """Raises BadRequest unless `path` is missing or an empty folder."""
    if path.exists() and (not path.is_dir() or {found.name for found in path.iterdir()} - {LOST_FOUND}):
        raise BadRequest(f"{shown} {path} exists and is not empty: name another folder")


def copy_ledger(disk: Disk, paths: LedgerPaths, end: End, target: Path) -> None:
    """Copies the key, the segments up to `end` and the files that these name to a new folder, durably.

    The caller prevents removals from the source. Raises LedgerDamaged if the source is damaged.
    """
    copy = LedgerPaths(paths.namespace, target, paths.witness, paths.ledger)
    for path in (target, copy.shard, copy.shard / OUTPUTS_NAME, copy.shard / ASIDE_NAME):
        disk.make_folder(path)
    copy_key(disk, paths.folder, target)
    for segment in _run(segments_in(paths.shard), end.segment):
        path = segment_path(paths.shard, segment)
        if not path.exists():
            raise LedgerDamaged(f"{path} is missing; put this file back from a copy")
        data = disk.read(path)
        whole = memoryview(data)[: end.offset if segment == end.segment else len(data)]
        _write(disk, segment_path(copy.shard, segment), [(0, whole)])
    for file, locations in _by_file(_named(disk, copy, paths.outputs, end)).items():
        ranges = ((one.offset, require_range(disk, paths.outputs, one)) for one in locations)
        _write(disk, output_path(copy.outputs, file), ranges)
    for path in (copy.outputs, copy.shard, target, target.parent):
        disk.sync_folder(path)


def _run(present: list[int], last: int) -> list[int]:
    """Returns the consecutive segment numbers up to `last`, ascending; the file of `last` may be missing."""
    first = next((n for n in range(last, 0, -1) if n - 1 not in present), 1)
    return list(range(first, last + 1))


def _named(disk: Disk, copy: LedgerPaths, outputs: Path, end: End) -> list[Location]:
    """Returns the locations in `outputs` that the copied frames name;
    raises LedgerDamaged if they do not reach `end`.
    """
    scan, walk = Scan(disk, copy.shard, outputs), Walk(disk, copy.shard, stop=end)
    for _ in scan.over(walk):
        pass
    if walk.end != end:
        raise LedgerDamaged(
            f"{copy.shard} comes to position {walk.end.position} (segment {walk.end.segment}, byte {walk.end.offset}), "
            f"and not to {end.position} (segment {end.segment}, byte {end.offset}) as it must; copy it anew"
        )
    return list(scan.locations())


def _by_file(locations: Iterable[Location]) -> dict[tuple[int, int], list[Location]]:
    found: dict[tuple[int, int], list[Location]] = defaultdict(list)
    for location in sorted(locations, key=lambda location: (location.file, location.offset)):
        found[location.file].append(location)
    return found


def _write(disk: Disk, path: Path, parts: Iterable[tuple[int, bytes | memoryview]]) -> None:
    """Creates a file that has the given bytes at the given offsets, and syncs it."""
    fd = disk.create(path)
    try:
        for offset, data in parts:
            disk.write(fd, [data], offset)
        disk.sync(fd)
    finally:
        disk.close(fd)


def write_copies(disk: Disk, folder: Path, copied: Iterable[Copied]) -> None:
    """Writes a backup's list durably, which completes the backup."""
    head = _FIRST + "".join(map(_line, copied))
    replace_file(disk, folder / LIST_NAME, [f"{head}check {_check(head)}".encode()])


def _line(one: Copied) -> str:
    end = one.end
    return f"{one.namespace} {one.ledger.hex()} {end.segment} {end.offset} {end.position} {end.chain.hex()}\n"


def read_copies(disk: Disk, folder: Path) -> list[Copied]:
    """Returns the ledgers of a backup. Raises NotFound (none, or not completed), LedgerDamaged (invalid list)."""
    path = folder / LIST_NAME
    if not path.exists():
        raise NotFound(
            f"there is no finished backup in {folder}: its list {LIST_NAME} is written last; "
            f"`oncegate backup --data FOLDER --to {folder}` makes one"
        )
    head, _, check = disk.read(path).decode(errors="replace").rpartition("check ")
    if not head.startswith(_FIRST) or check != _check(head):
        raise LedgerDamaged(f"the list of the backup {path} cannot be read; take another copy")
    return [_copied(*line.split(" ")) for line in head.splitlines()[1:]]


def _copied(namespace: str, ledger: str, segment: str, offset: str, position: str, chain: str) -> Copied:
    end = End(int(segment), int(offset), int(position), bytes.fromhex(chain))
    return Copied(namespace, bytes.fromhex(ledger), end)


def _check(head: str) -> str:
    return hashlib.sha256(head.encode()).hexdigest()[:32] + "\n"
