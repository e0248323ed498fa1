"""The key file of a namespace: 32 random bytes and a 16-byte check, readable only by its owner."""

import hashlib
import os
from pathlib import Path

from oncegate.core.errors import LedgerDamaged
from oncegate.ledgers.disk import Disk, replace_file

KEY_NAME = "key"
_KEY_BYTES = 32


def write_new_key(disk: Disk, folder: Path, given: bytes | None = None) -> bytes:
    """Writes a key file durably with mode 0600, and returns the key: `given`, or a random key if it is None.
    Raises OSError.
    """
    key = given or os.urandom(_KEY_BYTES)
    replace_file(disk, folder / KEY_NAME, [key, _check(b"file", key)], mode=0o600)
    return key


def read_key(disk: Disk, folder: Path) -> bytes:
    """Returns the key. Raises LedgerDamaged if the key file is missing or invalid."""
    path = folder / KEY_NAME
    data = disk.read(path) if path.exists() else b""
    key = data[:_KEY_BYTES]
    if not data or data[_KEY_BYTES:] != _check(b"file", key):
        state = "cannot be read" if data else "is missing"
        raise LedgerDamaged(f"the key file {path} {state}; without it every id would look new: put it back from a copy")
    return key


def copy_key(disk: Disk, folder: Path, to: Path) -> None:
    """Copies a namespace's key file. Raises LedgerDamaged if the source is missing or invalid."""
    key = read_key(disk, folder)
    replace_file(disk, to / KEY_NAME, [key, _check(b"file", key)], mode=0o600)


def key_check(key: bytes) -> bytes:
    """Returns a 16-byte fingerprint that identifies a key without revealing it."""
    return _check(b"ledger", key)


def _check(purpose: bytes, key: bytes) -> bytes:
    return hashlib.sha256(b"oncegate key " + purpose + b":" + key).digest()[:16]
