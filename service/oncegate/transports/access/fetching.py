"""Reads what an issuer of tokens publishes, where nobody else can answer for it: over HTTPS, without redirects."""

import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPMessage, HTTPResponse
from ipaddress import ip_address
from typing import IO

from oncegate.clock import SystemClock

# A set has a handful of keys of a kilobyte, a configuration some dozen members.
BYTES_MAX = 1 << 20
# For the next bytes, and for all of them.
TIMEOUT_S, TOTAL_S = 10.0, 20
_PART_BYTES = 64 << 10


class IssuerKeysUnreadable(ValueError):
    """Says that an issuer's keys cannot be used, in one line for a person."""


def is_own(url: str) -> bool:
    """Tells whether an address is of this machine, where nobody is on the way."""
    try:
        host = urllib.parse.urlsplit(url).hostname
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def check_address(url: str, own: bool = True) -> None:
    """Raises IssuerKeysUnreadable unless it is `https://`, or with `own` of this machine.

    Whoever can change the answer on its way can sign.
    """
    if not url.startswith("https://") and not (own and url.startswith("http://") and is_own(url)):
        raise IssuerKeysUnreadable(f"{url}: write https://; http:// is for this machine alone")


def short(text: bytes) -> bytes:
    """Returns the text. Raises IssuerKeysUnreadable: it is longer than what is meant ever is."""
    if len(text) > BYTES_MAX:
        raise IssuerKeysUnreadable(f"more than {BYTES_MAX >> 10} KiB: this is no set of keys")
    return text


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows nothing: the answer would be another address's."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Implements the library's handler."""


def fetched(url: str) -> bytes:
    """Returns what lies at an address. Raises IssuerKeysUnreadable; it waits, so call it in a thread."""
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
    """Asks an issuer of this machine itself: a proxy that the environment names would answer in its place, in clear."""
    if url.startswith("http://"):
        return urllib.request.build_opener(_Stay, urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(_Stay)


def _body(reply: HTTPResponse) -> bytes:
    """The body, one byte beyond the most at last; a server that sends a byte now and then is not waited for."""
    clock, parts, left = SystemClock(), list[bytes](), BYTES_MAX + 1
    until_ms = clock.monotonic_ms() + TOTAL_S * 1000
    while left and (part := reply.read1(min(left, _PART_BYTES))):
        parts.append(part)
        left -= len(part)
        if clock.monotonic_ms() > until_ms:
            raise TimeoutError(f"no end after {TOTAL_S} s")
    return b"".join(parts)
