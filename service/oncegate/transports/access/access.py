"""Decides whether a credential may make a call, before anything else of the request is processed.

The decision depends on the credential, the call and the name of the namespace, not on whether the namespace exists: a
caller without rights cannot find out which namespaces there are.
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
from oncegate.transports.file_version import version_of

# Minimum interval between checks of the file, and so how long a revoked key may still be accepted.
LOOK_EACH_MS = 1_000
# Checked credentials, valid and invalid: usually more than there are keys.
REMEMBERED_MAX = 4_096


class Tokens(Protocol):
    """Checks the tokens of one token issuer."""

    @property
    def version(self) -> int:
        """Changes when earlier results of `check` may no longer be valid."""

    def check(self, token: str) -> Principal:
        """Returns the principal of a token. Raises Unauthenticated, KeysUnread."""


class Access:
    """Authenticates callers by API keys from a file, which is reloaded when it changes, and by tokens.

    A file that cannot be read leaves the loaded keys in force. Checking a credential costs scrypt, or a signature,
    once; the result is cached under a keyed hash of the credential, so that memory holds no secret.

    Args:
        path: the file of keys; None: only tokens are accepted.
        tokens: None: only keys are accepted.
    """

    def __init__(self, path: Path | None, clock: Clock, observer: Observer, tokens: Tokens | None = None) -> None:
        """Reads the file. Raises KeysUnreadable."""
        self._path, self._clock, self._observer, self._tokens = path, clock, observer, tokens
        self._tokens_version = 0 if tokens is None else tokens.version
        self._pepper = secrets.token_bytes(32)
        self._checked: dict[bytes, Principal | None] = {}
        self._look_at_ms = clock.monotonic_ms() + LOOK_EACH_MS
        self._version = version_of(self._path)
        self._keys = {} if path is None else keys.read(path)

    def permit(self, call: str, namespace: str | None, credential: str | None) -> Principal | None:
        """Returns the caller's principal if the call is permitted; None if the call is public. Raises Unauthenticated,
        Forbidden.

        `call`: a name of `CALLS`. A call without a row raises KeyError, so that a forgotten one is not public.
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
        """Counts the cached credentials, valid and invalid."""
        return len(self._checked)

    def _principal(self, credential: str | None) -> Principal:
        if credential is None:
            raise Unauthenticated("this gateway requires a key, and the request has none; nothing was written")
        if self._tokens is not None and self._tokens.version != self._tokens_version:
            self._tokens_version = self._tokens.version
            self._checked.clear()
        if self._clock.monotonic_ms() >= self._look_at_ms:
            self._look()
        keyed_hash = hashlib.blake2b(credential.encode("utf-8", "replace"), key=self._pepper, digest_size=16).digest()
        try:
            principal = self._checked[keyed_hash]
        except KeyError:
            principal = self._remember(keyed_hash, self._check(credential))
        if principal is None:
            raise Unauthenticated("this key is unknown or revoked; nothing was written")
        if principal.until_ms is not None and self._clock.wall_ms() >= principal.until_ms:
            raise Unauthenticated("this token has expired; nothing was written")
        return principal

    def _check(self, credential: str) -> Principal | None:
        """Returns the principal of a credential; None for an unknown key. A refused token raises and is not cached: it
        may become valid later.
        """
        if self._tokens is not None and credential.count(".") == 2:
            return self._tokens.check(credential)
        parts = keys.parts_of(credential)
        key = None if parts is None else self._keys.get(parts[0])
        if parts is None or key is None or not key.fits(parts[1]):
            return None
        return Principal(key.name, frozenset(key.roles), frozenset(key.namespaces), tenant=key.tenant)

    def _remember(self, keyed_hash: bytes, principal: Principal | None) -> Principal | None:
        if len(self._checked) >= REMEMBERED_MAX:
            self._checked.pop(next(iter(self._checked)))
        self._checked[keyed_hash] = principal
        return principal

    def _look(self) -> None:
        """Reloads the file if it changed. A broken file is logged once, and the loaded keys stay in force."""
        self._look_at_ms = self._clock.monotonic_ms() + LOOK_EACH_MS
        version = version_of(self._path)
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


def _wanted(right: Right, namespace: str | None) -> str:
    """Describes the missing role, without revealing whether the namespace exists."""
    where = "all namespaces" if right.everywhere else f"namespace {shortened(namespace or '')}"
    roles = " or ".join(sorted(role.value for role in right.roles))
    return f"this key lacks a role: the call needs {roles} in {where}"
