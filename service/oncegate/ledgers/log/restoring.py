"""A data folder made of a backup: copied, verified, given new ids, and only then given its name."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from oncegate.core.errors import BadRequest, LedgerDamaged
from oncegate.ledgers.log.copies import Copied, copy_ledger, read_copies, require_empty
from oncegate.ledgers.log.disk import Disk, make_folders
from oncegate.ledgers.log.folder import DataFolder, told
from oncegate.ledgers.log.lists import write_list
from oncegate.ledgers.log.making import UNFINISHED
from oncegate.ledgers.log.recovery import LedgerPlace, begin_epoch, inspect
from oncegate.ledgers.log.verifying import verify_ranges
from oncegate.ledgers.log.witness import create_witness, witness_path


@dataclass(frozen=True)
class Restored:
    """A ledger that goes on as `ledger` from `position`; `predecessor` is the id it had."""

    namespace: str
    ledger: bytes
    predecessor: bytes
    position: int


def restore(backup: str, folder: str, witness: str | None = None, disk: Disk | None = None) -> list[Restored]:
    """Make a data folder, and its witness, of a backup. Nothing has the folder's name before all of it is verified.

    BadRequest: data folder or witness are there and not empty. NotFound: no finished backup. LedgerDamaged,
    KeyMismatch: the backup is not whole. LedgerFull, LedgerDown: make room and try again.
    """
    data, source = DataFolder(folder, witness, disk or Disk()), Path(backup).absolute()
    copies = read_copies(data.disk, source)
    require_empty(data.root, "the data folder")
    require_empty(
        data.witness, "what the witness knows would be lost, move it away to go on without: the witness folder"
    )
    begun = data.root.with_name(f"{UNFINISHED}{data.root.name}")
    if begun.exists():
        raise BadRequest(f"{begun} is what a restore left that did not end: remove it and try again")
    with told(data.shown):
        make_folders(data.disk, begun)
        restored = [_restore(data, copied, source, begun) for copied in copies]
        _name(data, begun, restored)
    return restored


def _restore(data: DataFolder, copied: Copied, source: Path, begun: Path) -> Restored:
    """The copy, verified; it goes on under a new id."""
    path = witness_path(data.witness, copied.namespace)
    place = LedgerPlace(copied.namespace, source / copied.namespace, path, copied.ledger)
    copy_ledger(data.disk, place, copied.end, begun / copied.namespace)
    place = replace(place, folder=begun / copied.namespace)
    found = inspect(data.disk, place, accepting=True)
    if (found.walk.end, found.header.ledger) != (copied.end, copied.ledger):
        raise LedgerDamaged(f"{place.shard} is not what the list of the backup says; take another copy")
    verify_ranges(data.disk, place, found)
    new = replace(place, ledger=os.urandom(16))
    segment = begin_epoch(data.disk, new, found)
    segment.close()
    make_folders(data.disk, data.witness)
    create_witness(data.disk, path, new.ledger, segment.header.epoch, segment.end)
    return Restored(copied.namespace, new.ledger, copied.ledger, copied.end.position)


def _name(data: DataFolder, begun: Path, restored: list[Restored]) -> None:
    """The witness's list first: the folder never lists what its witness does not know."""
    ledgers = {one.namespace: one.ledger for one in restored}
    write_list(data.disk, data.witness, ledgers)
    write_list(data.disk, begun, ledgers)
    data.disk.rename(begun, data.root)
    data.disk.sync_folder(data.root.parent)
