"""Restore: copies a backup, verifies it, assigns new ids, and only then renames it to the data folder."""

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from oncegate.core.errors import BadRequest, LedgerDamaged
from oncegate.ledgers.disk import TEMPORARY, Disk, make_folders
from oncegate.ledgers.log.admin.backup import Copied, copy_ledger, read_copies, require_empty
from oncegate.ledgers.log.admin.verify import verify_ranges
from oncegate.ledgers.log.data_dir import DataDir, ledger_errors
from oncegate.ledgers.log.files.ledger_list import LIST_NAME, write_list
from oncegate.ledgers.log.opening.create import UNFINISHED
from oncegate.ledgers.log.opening.recovery import LedgerPaths, begin_epoch, inspect
from oncegate.ledgers.witness import WitnessRecord, create_witness, witness_path


@dataclass(frozen=True)
class Restored:
    """A restored ledger: it continues after `position` under the new id `ledger`; `predecessor` is its old id."""

    namespace: str
    ledger: bytes
    predecessor: bytes
    position: int


def restore(backup: str, folder: str, witness: str | None = None, disk: Disk | None = None) -> list[Restored]:
    """Creates a data folder and its witness folder from a backup. The data folder appears only when all is verified.

    Raises BadRequest (data or witness folder is not empty), NotFound (no completed backup); LedgerDamaged, KeyMismatch
    (the backup is damaged); LedgerFull, LedgerDown (free space and retry).
    """
    data, source = DataDir(folder, witness, disk or Disk()), Path(backup).absolute()
    copies = read_copies(data.disk, source)
    require_empty(data.root, "the data folder")
    require_empty(
        data.witness, "what the witness knows would be lost, move it away to go on without: the witness folder"
    )
    begun = data.root.with_name(f"{UNFINISHED}{data.root.name}")
    if begun.exists():
        raise BadRequest(f"{begun} is what a restore left that did not end: remove it and try again")
    with ledger_errors(data.shown), ExitStack() as on_error:
        on_error.callback(_take_back, data, begun, copies)
        make_folders(data.disk, begun)
        whole = [_restore(data.disk, copied, source, begun) for copied in copies]
        _name(data, begun, whole)
        on_error.pop_all()
    return [restored for restored, _ in whole]


def _restore(disk: Disk, copied: Copied, source: Path, begun: Path) -> tuple[Restored, WitnessRecord]:
    """Copies and verifies one ledger under a new id; returns the ledger and the record for its witness."""
    nowhere = begun / copied.namespace / "witness"
    paths = LedgerPaths(copied.namespace, source / copied.namespace, nowhere, copied.ledger)
    copy_ledger(disk, paths, copied.end, begun / copied.namespace)
    paths = replace(paths, folder=begun / copied.namespace)
    found = inspect(disk, paths, accepting=True)
    if (found.walk.end, found.header.ledger) != (copied.end, copied.ledger):
        raise LedgerDamaged(f"{source / copied.namespace} is not what the list of the backup says; take another copy")
    verify_ranges(disk, paths, found)
    new = replace(paths, ledger=os.urandom(16))
    segment = begin_epoch(disk, new, found)
    segment.close()
    restored = Restored(copied.namespace, new.ledger, copied.ledger, copied.end.position)
    return restored, WitnessRecord(0, new.ledger, segment.header.epoch, segment.end)


def _name(data: DataDir, begun: Path, whole: list[tuple[Restored, WitnessRecord]]) -> None:
    """Writes the witness before the data folder's list, which must never name a ledger that the witness does not."""
    make_folders(data.disk, data.witness)
    for one, seen in whole:
        create_witness(data.disk, witness_path(data.witness, one.namespace), seen.ledger, seen.epoch, seen.end)
    ledgers = {one.namespace: one.ledger for one, _ in whole}
    write_list(data.disk, data.witness, ledgers)
    write_list(data.disk, begun, ledgers)
    data.disk.rename(begun, data.root)
    data.disk.sync_folder(data.root.parent)


def _take_back(data: DataDir, begun: Path, copies: list[Copied]) -> None:
    """Removes everything this restore created, so that it can be retried;
    it has not yet renamed its copy to the data folder.
    """
    shutil.rmtree(begun, ignore_errors=True)
    if not data.root.exists() or not any(data.root.iterdir()):
        for path in (data.witness / LIST_NAME, *(witness_path(data.witness, one.namespace) for one in copies)):
            path.unlink(missing_ok=True)
            path.with_name(path.name + TEMPORARY).unlink(missing_ok=True)
