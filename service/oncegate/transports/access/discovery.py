"""Finds an issuer's keys by its name alone, as OpenID Connect Discovery 1.0 has it (section 4).

The issuer's configuration lies below its own address and names it again, exactly: so no other address answers for it.
"""

import json
from typing import Any

from oncegate.ports import Clock
from oncegate.transports.access.fetching import IssuerKeysUnreadable, check_address, fetched, is_own

WELL_KNOWN = "/.well-known/openid-configuration"
# Issuers move their keys to another address seldom; one that cannot be read is looked up anew at once.
DISCOVERED_MS = 3_600_000


class Discovery:
    """Reads the keys of one issuer from where its configuration says, in a thread.

    A reading that was given up may end after later ones: it does not change where these look.
    """

    def __init__(self, issuer: str, clock: Clock) -> None:
        """Raises IssuerKeysUnreadable for an issuer whose answer others could change on its way."""
        check_address(issuer)
        self._issuer, self._clock = issuer, clock
        self._found: tuple[str, int] | None = None
        self._turn = 0

    def keys(self) -> bytes:
        """Returns the set of keys as it is published now. Raises IssuerKeysUnreadable."""
        self._turn = turn = self._turn + 1
        known, self._found = self._found, None
        url = self._keys_url(known)
        found = fetched(url[0])
        if turn == self._turn:
            self._found = url
        return found

    def _keys_url(self, known: tuple[str, int] | None) -> tuple[str, int]:
        """Where the keys are, and until when that is taken for known."""
        if known is not None and self._clock.monotonic_ms() < known[1]:
            return known
        address = self._issuer.rstrip("/") + WELL_KNOWN
        configuration = _object(fetched(address), address)
        if configuration.get("issuer") != self._issuer:
            raise IssuerKeysUnreadable(f"{address} is of another issuer than {self._issuer}: write it as it is there")
        url = configuration.get("jwks_uri")
        if not isinstance(url, str):
            raise IssuerKeysUnreadable(f"{address} names no jwks_uri")
        check_address(url, own=is_own(self._issuer))
        return url, self._clock.monotonic_ms() + DISCOVERED_MS


def _object(text: bytes, address: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IssuerKeysUnreadable(f"{address} is no JSON") from error
    if not isinstance(found, dict):
        raise IssuerKeysUnreadable(f"{address} is no JSON object")
    return found
