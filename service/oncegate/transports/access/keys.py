"""Reads and writes the key file: the rights of each API key, and a scrypt hash of its secret. The secret itself is not
stored.

A key is `og_<id>_<secret>`. The secret is 256 random bits, which cannot be guessed whatever one guess costs. The cost
of scrypt is therefore only 1 MiB and about 8 ms, so that a flood of wrong keys does not block the event loop.
"""

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from oncegate.transports.access.principal import ALL_NAMESPACES as ALL_NAMESPACES
from oncegate.transports.access.rights import Role

SCRYPT_N, SCRYPT_R, SCRYPT_P = 1_024, 8, 1
# scrypt uses 128 * n * r bytes; a file that demands more is refused.
SCRYPT_BYTES_MAX = 64 << 20
_BEARER = "bearer "
_KEY = re.compile(r"og_([0-9a-f]{12})_([0-9a-f]{64})")


class KeysUnreadable(ValueError):
    """Raised if the key file cannot be used; the message is one line for people."""


class ApiKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An API key: id, owner, roles, namespaces, and the hash of its secret with the hash parameters.

    `tenant`: keys with the same tenant share quotas; empty: keys with the same name do.
    """

    id: str
    name: str
    roles: tuple[Role, ...]
    namespaces: tuple[str, ...]
    made_ms: int
    salt: str
    scrypt: str
    n: int = SCRYPT_N
    r: int = SCRYPT_R
    p: int = SCRYPT_P
    tenant: str = ""

    def fits(self, secret: str) -> bool:
        """Returns whether a secret is the key's, in constant time."""
        return hmac.compare_digest(_hash(secret, self).hex(), self.scrypt)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    keys: list[ApiKey]


_FILE = msgspec.json.Decoder(_File)


def _hash(secret: str, key: ApiKey) -> bytes:
    return hashlib.scrypt(
        secret.encode(), salt=bytes.fromhex(key.salt), n=key.n, r=key.r, p=key.p, maxmem=2 * SCRYPT_BYTES_MAX, dklen=32
    )


def bearer(authorization: str | None) -> str | None:
    """Returns the credential of `Bearer …` (RFC 6750; the case of the scheme is ignored), or None."""
    if authorization is None or authorization[: len(_BEARER)].lower() != _BEARER:
        return None
    return authorization[len(_BEARER) :].strip()


def parts_of(credential: str) -> tuple[str, str] | None:
    """Returns the id and the secret of a key; None if the credential is not a key."""
    match = _KEY.fullmatch(credential)
    return None if match is None else (match[1], match[2])


def read(path: Path) -> dict[str, ApiKey]:
    """Reads the key file; returns the keys by id. Raises KeysUnreadable."""
    try:
        entries = _FILE.decode(path.read_bytes()).keys
        for key in entries:
            if 128 * key.n * key.r > SCRYPT_BYTES_MAX:
                raise KeysUnreadable(f"{path}: key {key.id} needs more than {SCRYPT_BYTES_MAX >> 20} MiB to check")
            bytes.fromhex(key.salt)
        # Tries each set of parameters once at load time: a check costs milliseconds and blocks the event loop.
        for key in {(key.n, key.r, key.p): key for key in entries}.values():
            _hash("", key)
    except OSError as error:
        raise KeysUnreadable(f"{path}: {error.strerror}; `oncegate keys add` creates it") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise error if isinstance(error, KeysUnreadable) else KeysUnreadable(f"{path}: {error}") from error
    by_id = {key.id: key for key in entries}
    if len(by_id) != len(entries):
        raise KeysUnreadable(f"{path}: two keys have the same id")
    return by_id


def made(
    name: str, roles: Iterable[Role], namespaces: Iterable[str], made_ms: int, tenant: str = ""
) -> tuple[ApiKey, str]:
    """Creates a key; returns its entry in the file, and its text, which is shown once and not stored."""
    key_id, secret = secrets.token_hex(6), secrets.token_hex(32)
    blank = ApiKey(key_id, name, tuple(roles), tuple(namespaces), made_ms, secrets.token_hex(16), "", tenant=tenant)
    return msgspec.structs.replace(blank, scrypt=_hash(secret, blank).hex()), f"og_{key_id}_{secret}"


def write(path: Path, keys: Iterable[ApiKey]) -> None:
    """Replaces the key file atomically; the new file is readable by its owner only, and durable on return.

    Raises OSError with the file's name: the file is unchanged.
    """
    text = msgspec.json.format(msgspec.json.encode(_File([*keys])), indent=1) + b"\n"
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
