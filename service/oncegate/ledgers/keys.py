"""Wraps namespaces' secret keys for ledgers that other people may read (RFC 3394, AES key wrap).

wrapped   1 | 40 bytes        with the master key
bare      0 | 32 bytes        only if the ledger's URL requests it (`bare_key=yes`)
"""

from pathlib import Path

from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

from oncegate.core.errors import BadRequest, KeyMismatch

KEY_BYTES = 32
_BARE, _WRAPPED = b"\0", b"\1"


class Keys:
    """The master keys: the current one, then the previous one. Without any, keys are stored bare."""

    def __init__(self, *masters: bytes) -> None:
        self._masters = masters

    def wrap(self, key: bytes) -> bytes:
        return _WRAPPED + aes_key_wrap(self._masters[0], key) if self._masters else _BARE + key

    def unwrap(self, data: bytes) -> bytes:
        """Unwraps a key. Raises KeyMismatch if it was wrapped with another master key."""
        if data[:1] == _BARE and len(data) == 1 + KEY_BYTES:
            return data[1:]
        for master in self._masters:
            try:
                return aes_key_unwrap(master, data[1:])
            except InvalidUnwrap:
                continue
        missing = "another master key" if self._masters else "a master key, and the ledger's URL names none"
        raise KeyMismatch(
            f"the namespace's key was wrapped with {missing}; without it every id would look new: nothing was changed, "
            "name the right file as master_key (the one before a change as old_master_key)"
        )


def read_keys(*files: Path | None) -> Keys:
    """Reads the master keys, the current one first. Raises BadRequest if a file contains none."""
    return Keys(*(_read(path) for path in files if path is not None))


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadRequest(f"the master key {path} cannot be read: {error.strerror}") from error
    if len(data) == KEY_BYTES:
        return data
    try:
        key = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadRequest(
            f"the master key {path} is neither {KEY_BYTES} bytes nor {2 * KEY_BYTES} hexadecimal digits; "
            f"openssl rand -hex {KEY_BYTES} makes one"
        )
    return key
