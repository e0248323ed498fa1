"""The keys by which tokens are checked, as their issuer publishes them (JWK Set, RFC 7517): in a file, or at a URL.

A URL is read in a thread of its own, never while a caller waits: at the start, every few minutes, and where a token
names a key that is not known, since that is how a new one is noticed.
"""

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPMessage
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any

from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from oncegate.core.errors import KeysUnread
from oncegate.ports import Clock, Observer

# A set has a handful of keys of a kilobyte.
BYTES_MAX = 1 << 20
TIMEOUT_S = 10.0
# Issuers publish a key hours before they sign with it; one that they withdraw counts no longer than this.
REFRESH_MS = 5 * 60_000
# Anybody may name a key that nobody knows: the issuer is asked once in so long, at most.
ASK_AGAIN_MS = 10_000
FILE_LOOK_MS = 1_000


class IssuerKeysUnreadable(ValueError):
    """Says that an issuer's keys cannot be used, in one line for a person."""


class IssuerKeys:
    """Finds the key that a token names. `version` changes with the keys; sets that cannot be read change nothing."""

    def __init__(self, source: str, clock: Clock, observer: Observer) -> None:
        """Reads a file, or begins to read a URL. Raises IssuerKeysUnreadable for a file, or what is no address."""
        self._clock, self._observer = clock, observer
        self._url = source if "://" in source else None
        self._path = Path(source)
        self._keys: dict[str | None, Key] | None = None
        self._reading: threading.Thread | None = None
        self._seen: tuple[int, int, int] | None = None
        self._look_at_ms = self._asked_at_ms = clock.monotonic_ms()
        self.version = 0
        if self._url is not None:
            _check_address(self._url)
            self._begin()
        else:
            self._seen = self._found()
            self._take(_keys_in(_file(self._path)))

    def find(self, kid: str | None) -> Key | None:
        """Returns the key of this id; of a token that names none: the only one, else None.

        Raises KeysUnread: it may be one that the issuer has now and that was not read yet.
        """
        self.look()
        if self._keys is None:
            raise KeysUnread("the keys of the tokens' issuer could not be read yet; nothing was written")
        found = self._keys.get(kid)
        if found is None and self._url is not None and self._may_be_new(kid):
            raise KeysUnread("this token names a key that is being asked for; nothing was written")
        return found

    def _may_be_new(self, kid: str | None) -> bool:
        """Whether the issuer is being asked, or is asked now."""
        if kid is None:
            return False
        reading = self._reading
        if reading is not None and reading.is_alive():
            return True
        if self._clock.monotonic_ms() - self._asked_at_ms < ASK_AGAIN_MS:
            return False
        self._begin()
        return True

    def look(self) -> None:
        """Takes a file as it is now, or has a URL read again, when it is time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms:
            return
        if self._url is not None:
            self._begin()
            return
        self._look_at_ms = now_ms + FILE_LOOK_MS
        found = self._found()
        if found != self._seen:
            self._seen = found
            self._read(lambda: _file(self._path))

    def _begin(self) -> None:
        now_ms, url = self._clock.monotonic_ms(), self._url
        assert url is not None
        self._asked_at_ms = now_ms
        # Sooner while there are none: a gateway that starts before its issuer is up takes tokens soon after.
        self._look_at_ms = now_ms + (ASK_AGAIN_MS if self._keys is None else REFRESH_MS)
        if self._reading is None or not self._reading.is_alive():
            self._reading = threading.Thread(target=self._read, args=(lambda: _fetched(url),), daemon=True)
            self._reading.start()

    def _read(self, source: Any) -> None:
        try:
            keys = _keys_in(source())
        except IssuerKeysUnreadable as error:
            self._observer.event("issuer_keys_unreadable", detail=str(error))
        else:
            self._take(keys)

    def _take(self, keys: dict[str | None, Key]) -> None:
        self._keys = keys
        self.version += 1
        self._observer.event("issuer_keys_read", keys=len({id(key) for key in keys.values()}))

    def _found(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _keys_in(text: bytes) -> dict[str | None, Key]:
    """The keys of a set by their ids; the only one also by None. Secret ones are refused: who reads them can sign."""
    try:
        entries = json.loads(text)["keys"]
        entries = [one for one in entries if one.get("use", "sig") == "sig"]
        if any(one.get("kty") == "oct" or "d" in one for one in entries):
            raise IssuerKeysUnreadable("the set holds a secret or private key: public ones alone are taken")
        keys = KeySet.import_key_set({"keys": entries}).keys
    except (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, IssuerKeysUnreadable):
            raise
        raise IssuerKeysUnreadable(f"this is no set of keys, as RFC 7517 has it: {type(error).__name__}") from error
    by_id: dict[str | None, Key] = {key.kid: key for key in keys}
    if len(by_id) != len(keys):
        raise IssuerKeysUnreadable("two keys of the set have one id")
    return by_id | ({None: keys[0]} if len(keys) == 1 else {})


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _short(file.read(BYTES_MAX + 1))
    except OSError as error:
        raise IssuerKeysUnreadable(f"{path}: {error.strerror}") from error


def _short(text: bytes) -> bytes:
    if len(text) > BYTES_MAX:
        raise IssuerKeysUnreadable(f"more than {BYTES_MAX >> 10} KiB: this is no set of keys")
    return text


def _check_address(url: str) -> None:
    """Whoever can change the answer on its way can sign."""
    try:
        parts = urllib.parse.urlsplit(url)
        own = parts.hostname == "localhost" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        own = False
    if not url.startswith("https://") and not (url.startswith("http://") and own):
        raise IssuerKeysUnreadable(f"{url}: write https://; http:// is for this machine alone")


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the answer would be another address's."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Implements the library's handler."""


def _fetched(url: str) -> bytes:
    try:
        with urllib.request.build_opener(_Stay).open(url, timeout=TIMEOUT_S) as reply:
            return _short(reply.read(BYTES_MAX + 1))
    except urllib.error.HTTPError as error:
        with error:
            raise IssuerKeysUnreadable(f"{url} answers {error.code}") from error
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, IssuerKeysUnreadable):
            raise
        raise IssuerKeysUnreadable(f"{url}: {getattr(error, 'reason', error)}") from error
