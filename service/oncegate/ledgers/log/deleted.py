"""Where deleted ledgers lie: moved aside, whole, until a person removes them.

    <data>/DELETED/<namespace>.<ledger id>/   the whole folder
    <data>.witness/DELETED/<namespace>.<ledger id>.witness

1. the folder is moved: from now on the ledger is deleted, whatever the lists say   2. its witness
3. the folder's own list no longer names it   4. the witness's list no longer names it

A start goes on where a crash came between these.
"""

from pathlib import Path

from oncegate.ledgers.disk import Disk, make_folders
from oncegate.ledgers.log.locks import FolderLock
from oncegate.ledgers.log.opening.recovery import SHARD_NAME
from oncegate.ledgers.witness import witness_path

DELETED_NAME = "DELETED"  # in capitals, which no namespace can be


def deleted_path(root: Path, namespace: str, ledger: bytes) -> Path:
    """Returns where the folder of a ledger lies once it is deleted: a name that no other ledger ever has."""
    return root / DELETED_NAME / f"{namespace}.{ledger.hex()}"


def is_deleted(root: Path, namespace: str, ledger: bytes) -> bool:
    """Tells whether a ledger was deleted, though a list may still name it."""
    return deleted_path(root, namespace, ledger).is_dir()


def set_aside(disk: Disk, root: Path, witness: Path, namespace: str, ledger: bytes) -> None:
    """Moves a ledger's folder (step 1), durably; no effect where it was moved. LedgerBusy: somebody owns it; OSError.

    Room is taken before it, so that a full disk refuses while nothing is changed. Of a folder that is gone an empty one
    is made where it would be: with it the ledger is deleted.
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
    """Moves a deleted ledger's witness (step 2), durably; no effect where it was moved. OSError."""
    path, folder = witness_path(witness, namespace), witness / DELETED_NAME
    if path.exists():
        make_folders(disk, folder)
        disk.rename(path, witness_path(folder, f"{namespace}.{ledger.hex()}"))
        disk.sync_folder(folder)
        disk.sync_folder(witness)
