"""Finds a token issuer's keys by OpenID Connect Discovery 1.0 (section 4).

The configuration is below the issuer's own address and repeats its name exactly, so no other address can pose as the
issuer.
"""

import json
from typing import Any

from oncegate.ports import Clock
from oncegate.transports.access.fetching import IssuerKeysUnreadable, check_address, fetched, is_own

WELL_KNOWN = "/.well-known/openid-configuration"
# Issuers rarely move their keys to another address. If an address cannot be read, it is looked up again at once.
DISCOVERED_MS = 3_600_000


class Discovery:
    """Reads an issuer's keys from the URL that its configuration names; blocks, so it must run in a thread.

    A read that was given up may end after a later one. It does not change the address that later reads use.
    """

    def __init__(self, issuer: str, clock: Clock) -> None:
        """Raises IssuerKeysUnreadable for a URL whose responses could be modified in transit."""
        check_address(issuer)
        self._issuer, self._clock = issuer, clock
        self._address: tuple[str, int] | None = None
        self._turn = 0

    def keys(self) -> bytes:
        """Returns the key set that the issuer currently publishes. Raises IssuerKeysUnreadable."""
        self._turn = turn = self._turn + 1
        known, self._address = self._address, None
        address = self._keys_url(known)
        keys = fetched(address[0])
        if turn == self._turn:
            self._address = address
        return keys

    def _keys_url(self, known: tuple[str, int] | None) -> tuple[str, int]:
        """Returns the URL of the keys, and the time until which the URL may be used."""
        if known is not None and self._clock.monotonic_ms() < known[1]:
            return known
        address = self._issuer.rstrip("/") + WELL_KNOWN
        configuration = _object(fetched(address), address)
        if configuration.get("issuer") != self._issuer:
            raise IssuerKeysUnreadable(
                f"{address} names another issuer than {self._issuer}: write the issuer exactly as it is there"
            )
        url = configuration.get("jwks_uri")
        if not isinstance(url, str):
            raise IssuerKeysUnreadable(f"{address} names no jwks_uri")
        check_address(url, own=is_own(self._issuer))
        return url, self._clock.monotonic_ms() + DISCOVERED_MS


def _object(text: bytes, address: str) -> dict[str, Any]:
    try:
        configuration = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise IssuerKeysUnreadable(f"{address} is not JSON") from error
    if not isinstance(configuration, dict):
        raise IssuerKeysUnreadable(f"{address} is not a JSON object")
    return configuration
