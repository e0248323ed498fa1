"""Decides whether a credential may make a call, the same for each transport, before anything else is looked at.

The answer rests on the credential, the call and the namespace's name, never on what there is: a namespace of others and
one that is nowhere are refused alike.
"""

import hashlib
import secrets
from pathlib import Path
from typing import Protocol

from oncegate.core.errors import Forbidden, Unauthenticated
from oncegate.ports import Clock, Observer
from oncegate.transports.access import keys
from oncegate.transports.access.principal import Principal
from oncegate.transports.access.rights import CALLS, Right
from oncegate.transports.decode.identifiers import shortened

# How long a revoked key may still be taken: the file is looked at this often, at most.
LOOK_EACH_MS = 1_000
# Credentials that were checked, right and wrong: more than there are keys, as a rule.
REMEMBERED_MAX = 4_096


class Tokens(Protocol):
    """Checks credentials that are no keys: tokens of an issuer."""

    @property
    def version(self) -> int:
        """Changes when what was checked may no longer hold."""

    def check(self, token: str) -> Principal:
        """Returns whose token it is, and what it may do. Raises Unauthenticated, KeysUnread."""


class Access:
    """Knows the keys of a file, and reads it anew when it changes; one that cannot be read changes nothing.

    A credential costs scrypt, or a signature, once; after that it is found by its keyed hash, so that memory holds no
    secret. `path`: None where tokens alone are taken; `tokens`: None where keys alone are.
    """

    def __init__(self, path: Path | None, clock: Clock, observer: Observer, tokens: Tokens | None = None) -> None:
        """Reads the file. Raises KeysUnreadable."""
        self._path, self._clock, self._observer, self._tokens = path, clock, observer, tokens
        self._tokens_version = 0 if tokens is None else tokens.version
        self._pepper = secrets.token_bytes(32)
        self._checked: dict[bytes, Principal | None] = {}
        self._look_at_ms = clock.monotonic_ms() + LOOK_EACH_MS
        self._version = self._found()
        self._keys = {} if path is None else keys.read(path)

    def permit(self, call: str, namespace: str | None, credential: str | None) -> Principal | None:
        """Returns who may make this call; None: it is for everybody. Raises Unauthenticated, Forbidden.

        `call`: a name of `CALLS`; KeyError for one that has no row, so that nothing is open because it was forgotten.
        """
        right = CALLS[call]
        if right.public:
            return None
        principal = self._principal(credential)
        if not principal.may(right, namespace):
            raise Forbidden(_wanted(right, namespace) + "; nothing was written")
        return principal

    @property
    def remembered(self) -> int:
        """How many credentials are remembered, right and wrong."""
        return len(self._checked)

    def _principal(self, credential: str | None) -> Principal:
        if credential is None:
            raise Unauthenticated("this gateway asks for a key, and none was sent; nothing was written")
        if self._tokens is not None and self._tokens.version != self._tokens_version:
            self._tokens_version = self._tokens.version
            self._checked.clear()
        if self._clock.monotonic_ms() >= self._look_at_ms:
            self._look()
        mark = hashlib.blake2b(credential.encode("utf-8", "replace"), key=self._pepper, digest_size=16).digest()
        try:
            found = self._checked[mark]
        except KeyError:
            found = self._remember(mark, self._check(credential))
        if found is None:
            raise Unauthenticated("this key is unknown, or was revoked; nothing was written")
        if found.until_ms is not None and self._clock.wall_ms() >= found.until_ms:
            raise Unauthenticated("this token is over; nothing was written")
        return found

    def _check(self, credential: str) -> Principal | None:
        """None: it is no key that is known. A token that is refused is not remembered: tomorrow it may be good."""
        if self._tokens is not None and credential.count(".") == 2:
            return self._tokens.check(credential)
        parts = keys.parts_of(credential)
        key = None if parts is None else self._keys.get(parts[0])
        if parts is None or key is None or not key.fits(parts[1]):
            return None
        return Principal(key.name, frozenset(key.roles), frozenset(key.namespaces), tenant=key.tenant)

    def _remember(self, mark: bytes, found: Principal | None) -> Principal | None:
        if len(self._checked) >= REMEMBERED_MAX:
            self._checked.pop(next(iter(self._checked)))
        self._checked[mark] = found
        return found

    def _look(self) -> None:
        """Takes the file as it is now; a broken one is told once, and what was known stays in force."""
        self._look_at_ms = self._clock.monotonic_ms() + LOOK_EACH_MS
        version = self._found()
        if version == self._version or self._path is None:
            return
        self._version = version
        try:
            self._keys = keys.read(self._path)
        except keys.KeysUnreadable as error:
            self._observer.event("keys_unreadable", detail=str(error))
        else:
            self._checked.clear()
            self._observer.event("keys_read", keys=len(self._keys))

    def _found(self) -> tuple[int, int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _wanted(right: Right, namespace: str | None) -> str:
    """What the credential lacks, in words that do not depend on whether there is such a namespace."""
    where = "all namespaces" if right.everywhere else f"namespace {shortened(namespace or '')}"
    roles = " or ".join(sorted(role.value for role in right.roles))
    return f"this key has no role for it: {roles} in {where} is needed"
