"""The keys by which tokens are checked, as their issuer publishes them (JWK Set, RFC 7517): in a file, or at a URL.

A URL is read in a thread of its own, never while a caller waits: at the start, every few minutes, and where a token
names a key that is not known, since that is how a new one is noticed.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path

from joserfc.errors import JoseError
from joserfc.jwk import Key, KeySet

from oncegate.core.errors import KeysUnread
from oncegate.ports import Clock, Observer
from oncegate.transports.access.discovery import Discovery
from oncegate.transports.access.fetching import BYTES_MAX, check_address, fetched, short
from oncegate.transports.access.fetching import IssuerKeysUnreadable as IssuerKeysUnreadable

# Issuers publish a key hours before they sign with it; one that they withdraw counts no longer than this.
REFRESH_MS = 5 * 60_000
# Anybody may name a key that nobody knows: the issuer is asked once in so long, at most.
ASK_AGAIN_MS = 10_000
FILE_LOOK_MS = 1_000
# Longer than both addresses of a discovery may take: what is read for longer is given up, and read anew.
READING_MS = 60_000


class IssuerKeys:
    """Finds the key that a token names. `version` changes with the keys; sets that cannot be read change nothing.

    `source`: a file, the URL of a set, or with `discovered` the issuer, whose configuration names that URL.
    """

    def __init__(self, source: str, clock: Clock, observer: Observer, discovered: bool = False) -> None:
        """Reads a file, or begins to read a URL. Raises IssuerKeysUnreadable for a file, or what is no address."""
        self._clock, self._observer = clock, observer
        self._path = Path(source)
        self._fetch = _fetching(source, clock, discovered)
        self._keys: dict[str | None, Key] | None = None
        self._reading: threading.Thread | None = None
        # Counts the readings of a URL; and whether the last one found no keys.
        self._turn = 0
        self._has_failed = False
        self._seen: tuple[int, int, int] | None = None
        self._look_at_ms = self._asked_at_ms = clock.monotonic_ms()
        self.version = 0
        if self._fetch is not None:
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
        if found is None and self._fetch is not None and self._may_be_new(kid):
            raise KeysUnread("this token names a key that its issuer is asked for; nothing was written")
        return found

    def _may_be_new(self, kid: str | None) -> bool:
        """Whether the issuer is being asked, is asked now, or could not be asked the last time."""
        if kid is None:
            return False
        if self._is_reading:
            return True
        if self._clock.monotonic_ms() - self._asked_at_ms < ASK_AGAIN_MS:
            return self._has_failed
        self._begin()
        return True

    @property
    def _is_reading(self) -> bool:
        is_late = self._clock.monotonic_ms() - self._asked_at_ms >= READING_MS
        return self._reading is not None and self._reading.is_alive() and not is_late

    def look(self) -> None:
        """Takes a file as it is now, or has a URL read again, when it is time."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms:
            return
        if self._fetch is not None:
            self._begin()
            return
        self._look_at_ms = now_ms + FILE_LOOK_MS
        found = self._found()
        if found != self._seen:
            self._seen = found
            self._read(lambda: _file(self._path), self._turn)

    def _begin(self) -> None:
        now_ms = self._clock.monotonic_ms()
        # Sooner while there are none: a gateway that starts before its issuer is up takes tokens soon after.
        self._look_at_ms = now_ms + (ASK_AGAIN_MS if self._keys is None else REFRESH_MS)
        if self._is_reading:
            return
        self._asked_at_ms, self._turn = now_ms, self._turn + 1
        self._reading = threading.Thread(target=self._read, args=(self._fetch, self._turn), daemon=True)
        self._reading.start()

    def _read(self, source: Callable[[], bytes], turn: int) -> None:
        """Takes what is read, but for a reading that was given up: what it brings is old."""
        try:
            keys = _keys_in(source())
        except IssuerKeysUnreadable as error:
            self._has_failed = self._has_failed or turn == self._turn
            self._observer.event("issuer_keys_unreadable", detail=str(error))
        else:
            if turn == self._turn:
                self._take(keys)

    def _take(self, keys: dict[str | None, Key]) -> None:
        self._keys, self._has_failed = keys, False
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
            return short(file.read(BYTES_MAX + 1))
    except OSError as error:
        raise IssuerKeysUnreadable(f"{path}: {error.strerror}") from error


def _fetching(source: str, clock: Clock, discovered: bool) -> Callable[[], bytes] | None:
    """What reads the keys at an address; None: they are in a file."""
    if discovered:
        return Discovery(source, clock).keys
    if "://" not in source:
        return None
    check_address(source)
    return lambda: fetched(source)
