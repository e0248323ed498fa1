"""Creation of a ledger's files. After a crash at any point the ledger is either complete or absent."""

import os
import re
import shutil
from pathlib import Path

from oncegate.core.errors import BadRequest, LedgerDamaged
from oncegate.ledgers.chain import FIRST_CHAIN
from oncegate.ledgers.disk import BLOCK_BYTES, Disk
from oncegate.ledgers.log.files.frames import NO_LEDGER, SegmentHeader
from oncegate.ledgers.log.files.keys import key_check, write_new_key
from oncegate.ledgers.log.files.segments import SegmentWriter, segment_path, segments_in
from oncegate.ledgers.log.opening.recovery import ASIDE_NAME, OUTPUTS_NAME, SHARD_NAME
from oncegate.ledgers.witness import End, create_witness, read_witness, witness_path

BEGINNING = End(1, BLOCK_BYTES, 0, FIRST_CHAIN)
UNFINISHED = "NEW-"  # upper case, which no namespace can have
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def make_ledger(disk: Disk, root: Path, witness: Path, namespace: str, key: bytes | None = None) -> bytes:
    """Creates an empty ledger, its key and its witness, all durable; returns its id for the lists.

    Raises BadRequest (invalid name), LedgerDamaged (an unlisted ledger or its witness already exists), OSError, NoRoom.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise BadRequest(
            f"a namespace is 1 to 64 of a-z, 0-9, '.', '_', '-', the first a letter or digit: {namespace!r}"
        )
    path = witness_path(witness, namespace)
    if path.exists() and read_witness(disk, path).serial:
        raise LedgerDamaged(
            f"the witness {path} saw a ledger of namespace {namespace} that no list names any more; "
            "put the data folder back, or remove that witness to begin anew"
        )
    ledger = _never_used(disk, root / namespace) or _make_folder(disk, root, namespace, key)
    create_witness(disk, path, ledger, 0, BEGINNING)
    return ledger


def _never_used(disk: Disk, folder: Path) -> bytes | None:
    """Returns the id of a ledger that was completely created but never listed, or None if its folder does not exist."""
    if not folder.exists():
        return None
    first = segment_path(folder / SHARD_NAME, 1)
    data = disk.read(first) if first.exists() else b""
    header = SegmentHeader.decode(data)
    if header is None or len(data) != BLOCK_BYTES or segments_in(folder / SHARD_NAME) != [1]:
        raise LedgerDamaged(f"{folder} is there and no list of ledgers names it; put the lists back, or move it away")
    return header.ledger


def _make_folder(disk: Disk, root: Path, namespace: str, given: bytes | None) -> bytes:
    folder = root / f"{UNFINISHED}{namespace}"
    if folder.exists():  # left by a crash; it was never renamed, so no ledger used it
        shutil.rmtree(folder)
    shard = folder / SHARD_NAME
    for path in (folder, shard, shard / OUTPUTS_NAME, shard / ASIDE_NAME):
        disk.make_folder(path)
    key = write_new_key(disk, folder, given)
    ledger = os.urandom(16)
    header = SegmentHeader(1, 0, 1, ledger, NO_LEDGER, key_check(key), FIRST_CHAIN)
    SegmentWriter(disk, shard, header).close()
    disk.sync_folder(folder)
    disk.rename(folder, root / namespace)
    disk.sync_folder(root)
    return ledger
