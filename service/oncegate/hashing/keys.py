"""Derives keys from a namespace's key, one for each purpose. Needs no compiled loops."""

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

FUNCTION = 1  # AES-128-CMAC; recorded in the ledger's first entry: another function needs another number
KEY_BYTES = 32


def derive(key: bytes, purpose: bytes) -> bytes:
    """Derives 16 bytes for one purpose from a namespace's 32 bytes, by HKDF-SHA256 (RFC 5869) without salt.

    Raises ValueError if the key has another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a namespace's key has {KEY_BYTES} bytes, this one {len(key)}")
    return HKDF(algorithm=SHA256(), length=16, salt=None, info=b"oncegate 1 " + purpose).derive(key)


def key_check(key: bytes) -> bytes:
    """Returns 16 bytes that identify a namespace's key and reveal nothing else."""
    return derive(key, b"key check")
