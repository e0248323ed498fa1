"""The public keys of a token issuer (JWK Set, RFC 7517), from a file or a URL.

A URL is read in a background thread, never while a caller waits: at start-up, every few minutes, and when a token names
an unknown key, which is how key rotation is noticed.
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
from oncegate.transports.file_version import FileVersion, version_of

# Issuers publish a key hours before they sign with it. A withdrawn key stays valid at most this long.
REFRESH_MS = 5 * 60_000
# Any caller can name an unknown key, so the issuer is asked at most this often.
ASK_AGAIN_MS = 10_000
FILE_LOOK_MS = 1_000
# Longer than both requests of a discovery may take. A read that takes longer is given up and started again.
READING_MS = 60_000


class IssuerKeys:
    """Holds a token issuer's current keys. `version` changes with them; a set that cannot be read changes nothing.

    Args:
        source: a file, the URL of a set, or with `discovered` the issuer, whose configuration names that URL.
    """

    def __init__(self, source: str, clock: Clock, observer: Observer, discovered: bool = False) -> None:
        """Reads a file, or begins to read a URL. Raises IssuerKeysUnreadable for a bad file or address."""
        self._clock, self._observer = clock, observer
        self._path = Path(source)
        self._fetch = _fetching(source, clock, discovered)
        self._keys: dict[str | None, Key] | None = None
        self._reading: threading.Thread | None = None
        # The number of reads of a URL, and whether the last one failed.
        self._turn = 0
        self._has_failed = False
        self._seen: FileVersion | None = None
        self._look_at_ms = self._asked_at_ms = clock.monotonic_ms()
        self.version = 0
        if self._fetch is not None:
            self._begin()
        else:
            self._seen = version_of(self._path)
            self._take(_keys_in(_file(self._path)))

    def find(self, kid: str | None) -> Key | None:
        """Returns the key with this id, or None; for a token without a key id, the only key of the set, or None.

        Raises KeysUnread if the issuer may have published the key since the last read.
        """
        self.look()
        if self._keys is None:
            raise KeysUnread("the keys of the token issuer have not been read yet; nothing was written")
        key = self._keys.get(kid)
        if key is None and self._fetch is not None and self._may_be_new(kid):
            raise KeysUnread(
                "this token names an unknown key, which is being read from its issuer; nothing was written"
            )
        return key

    def _may_be_new(self, kid: str | None) -> bool:
        """Returns whether a read is running, has just been started, or failed the last time."""
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
        """Reloads the key file if it changed, or starts the next read of the URL, when due."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._look_at_ms:
            return
        if self._fetch is not None:
            self._begin()
            return
        self._look_at_ms = now_ms + FILE_LOOK_MS
        version = version_of(self._path)
        if version != self._seen:
            self._seen = version
            self._read(lambda: _file(self._path), self._turn)

    def _begin(self) -> None:
        now_ms = self._clock.monotonic_ms()
        # Sooner while there are no keys, so that a gateway that starts before its issuer soon accepts tokens.
        self._look_at_ms = now_ms + (ASK_AGAIN_MS if self._keys is None else REFRESH_MS)
        if self._is_reading:
            return
        self._asked_at_ms, self._turn = now_ms, self._turn + 1
        self._reading = threading.Thread(target=self._read, args=(self._fetch, self._turn), daemon=True)
        self._reading.start()

    def _read(self, source: Callable[[], bytes], turn: int) -> None:
        """Loads the keys, unless the read was abandoned and its result is therefore stale."""
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


def _keys_in(text: bytes) -> dict[str | None, Key]:
    """Returns the keys of a key set by id; a set's only key is also listed under None. Raises for secret keys: a reader
    could sign.
    """
    try:
        entries = json.loads(text)["keys"]
        entries = [entry for entry in entries if entry.get("use", "sig") == "sig"]
        if any(entry.get("kty") == "oct" or "d" in entry for entry in entries):
            raise IssuerKeysUnreadable("the set contains a secret or private key; only public keys are accepted")
        keys = KeySet.import_key_set({"keys": entries}).keys
    except (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, IssuerKeysUnreadable):
            raise
        raise IssuerKeysUnreadable(f"this is not a JWK Set (RFC 7517): {type(error).__name__}") from error
    by_id: dict[str | None, Key] = {key.kid: key for key in keys}
    if len(by_id) != len(keys):
        raise IssuerKeysUnreadable("two keys of the set have the same id")
    return by_id | ({None: keys[0]} if len(keys) == 1 else {})


def _file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return short(file.read(BYTES_MAX + 1))
    except OSError as error:
        raise IssuerKeysUnreadable(f"{path}: {error.strerror}") from error


def _fetching(source: str, clock: Clock, discovered: bool) -> Callable[[], bytes] | None:
    """Returns the function that fetches the keys from a URL; None if the keys are in a file."""
    if discovered:
        return Discovery(source, clock).keys
    if "://" not in source:
        return None
    check_address(source)
    return lambda: fetched(source)
