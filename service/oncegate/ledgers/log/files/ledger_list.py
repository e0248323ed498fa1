"""The list of ledgers: a text file, one copy in the data folder and one in the witness folder.

oncegate ledgers 1
<namespace> <ledger id, 32 hex>
check <SHA-256 of the lines above, 32 hex>
"""

import hashlib
from pathlib import Path

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.disk import Disk, replace_file

# Upper case, which no namespace can have.
LIST_NAME = "LEDGERS"
_FIRST = "oncegate ledgers 1\n"


def read_list(disk: Disk, folder: Path) -> dict[str, bytes] | None:
    """Returns the ledger id of each listed namespace, or None if the folder has no list.
    Raises LedgerDamaged if it is invalid.
    """
    path = folder / LIST_NAME
    if not path.exists():
        return None
    text = disk.read(path).decode(errors="replace")
    head, _, check = text.rpartition("check ")
    if not head.startswith(_FIRST) or check != _check(head):
        raise LedgerDamaged(f"the list of ledgers {path} cannot be read; put it back from a copy")
    pairs = [line.split(" ") for line in head.splitlines()[1:]]
    return {name: bytes.fromhex(ledger) for name, ledger in pairs}


def write_list(disk: Disk, folder: Path, ledgers: dict[str, bytes]) -> None:
    """Replaces a folder's list of namespaces and their ledger ids, durably. Raises OSError."""
    head = _FIRST + "".join(f"{name} {ledger.hex()}\n" for name, ledger in sorted(ledgers.items()))
    replace_file(disk, folder / LIST_NAME, [f"{head}check {_check(head)}".encode()])


def _check(head: str) -> str:
    return hashlib.sha256(head.encode()).hexdigest()[:32] + "\n"
