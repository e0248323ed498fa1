"""Deletion of ledgers: the whole ledger is moved to DELETED, and an operator removes it later.

    <data>/DELETED/<namespace>.<ledger id>/   the whole folder
    <data>.witness/DELETED/<namespace>.<ledger id>.witness

1. Move the folder. From then on the ledger is deleted, even if a list still names it.
2. Move its witness.
3. Remove the ledger from the folder's own list.
4. Remove it from the witness's list.

After a crash between two steps, the next start performs the remaining ones.
"""

from pathlib import Path

from oncegate.ledgers.disk import Disk, make_folders
from oncegate.ledgers.log.locks import FolderLock
from oncegate.ledgers.log.opening.recovery import SHARD_NAME
from oncegate.ledgers.witness import witness_path

DELETED_NAME = "DELETED"  # upper case, which no namespace can have


def deleted_path(root: Path, namespace: str, ledger: bytes) -> Path:
    """Returns the path to which a deleted ledger is moved; the ledger id in it makes the path unique."""
    return root / DELETED_NAME / f"{namespace}.{ledger.hex()}"


def is_deleted(root: Path, namespace: str, ledger: bytes) -> bool:
    """Returns whether a ledger was deleted, even if a list still names it."""
    return deleted_path(root, namespace, ledger).is_dir()


def set_aside(disk: Disk, root: Path, witness: Path, namespace: str, ledger: bytes) -> None:
    """Moves a ledger's folder to DELETED (step 1 of a deletion), durably;
    no effect if it is already moved. Raises LedgerBusy (it is open),
    OSError.

    The target folders are created first, so that a full disk fails the call before anything changes. If the ledger's
    folder is missing, an empty target folder is created: its existence marks the ledger as deleted.
    """
    aside = deleted_path(root, namespace, ledger)
    if aside.is_dir():
        return
    if not (root / namespace).exists():
        make_folders(disk, witness / DELETED_NAME)
        make_folders(disk, aside)
        return
    lock = FolderLock(root / namespace / SHARD_NAME, f"ledger {namespace}")
    try:
        make_folders(disk, aside.parent)
        make_folders(disk, witness / DELETED_NAME)
        disk.rename(root / namespace, aside)
        disk.sync_folder(aside.parent)
        disk.sync_folder(root)
    finally:
        lock.close()


def set_witness_aside(disk: Disk, witness: Path, namespace: str, ledger: bytes) -> None:
    """Moves a deleted ledger's witness (step 2 of a deletion), durably;
    no effect if it is already moved. Raises OSError.
    """
    path, folder = witness_path(witness, namespace), witness / DELETED_NAME
    if path.exists():
        make_folders(disk, folder)
        disk.rename(path, witness_path(folder, f"{namespace}.{ledger.hex()}"))
        disk.sync_folder(folder)
        disk.sync_folder(witness)
