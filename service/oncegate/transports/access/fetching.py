"""Fetches the documents that a token issuer publishes: over HTTPS, without redirects."""

import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPMessage, HTTPResponse
from ipaddress import ip_address
from typing import IO

from oncegate.clock import SystemClock

# A set has a few keys of a kilobyte each, a configuration a few dozen members.
BYTES_MAX = 1 << 20
# For the next bytes, and for the whole answer.
TIMEOUT_S, TOTAL_S = 10.0, 20
_PART_BYTES = 64 << 10


class IssuerKeysUnreadable(ValueError):
    """Raised if an issuer's keys cannot be used; the message is one line for people."""


def is_own(url: str) -> bool:
    """Returns whether a URL is on this machine, so that responses cannot be modified in transit."""
    try:
        host = urllib.parse.urlsplit(url).hostname
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def check_address(url: str, own: bool = True) -> None:
    """Raises IssuerKeysUnreadable unless the URL is `https://` or, with `own`, on this machine.

    Anyone who can modify the keys in transit can sign tokens.
    """
    if not url.startswith("https://") and not (own and url.startswith("http://") and is_own(url)):
        raise IssuerKeysUnreadable(f"{url}: use https://; http:// is accepted for this machine only")


def short(text: bytes) -> bytes:
    """Returns the text. Raises IssuerKeysUnreadable if it is longer than any set of keys."""
    if len(text) > BYTES_MAX:
        raise IssuerKeysUnreadable(f"more than {BYTES_MAX >> 10} KiB: this is not a set of keys")
    return text


class _Stay(urllib.request.HTTPRedirectHandler):
    """Rejects redirects: the response would come from a different URL."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Implements the redirect handler of `urllib`."""


def fetched(url: str) -> bytes:
    """Returns the response body of a URL. Raises IssuerKeysUnreadable. Blocks, so call it in a thread."""
    try:
        with _opener(url).open(url, timeout=TIMEOUT_S) as reply:
            return short(_body(reply))
    except urllib.error.HTTPError as error:
        with error:
            raise IssuerKeysUnreadable(f"{url} answers {error.code}") from error
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, IssuerKeysUnreadable):
            raise
        raise IssuerKeysUnreadable(f"{url}: {getattr(error, 'reason', error)}") from error


def _opener(url: str) -> urllib.request.OpenerDirector:
    """Bypasses the environment's proxies for URLs on this machine: a proxy could answer instead, unencrypted."""
    if url.startswith("http://"):
        return urllib.request.build_opener(_Stay, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_Stay)


def _body(reply: HTTPResponse) -> bytes:
    """Reads at most one byte more than BYTES_MAX, within TOTAL_S, however slowly the server sends."""
    clock, parts, left = SystemClock(), list[bytes](), BYTES_MAX + 1
    until_ms = clock.monotonic_ms() + TOTAL_S * 1000
    while left and (part := reply.read1(min(left, _PART_BYTES))):
        parts.append(part)
        left -= len(part)
        if clock.monotonic_ms() > until_ms:
            raise TimeoutError(f"incomplete after {TOTAL_S} s")
    return b"".join(parts)
