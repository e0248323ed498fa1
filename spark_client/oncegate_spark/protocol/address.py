"""Where a gateway listens, with which key, and how long a call may take: what both clients check. No sockets."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.tracing import trace_headers


@dataclass(frozen=True)
class GatewayAddress:
    """Where a gateway listens. `prefix` stands before every path."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, url: str, credentials: Credentials = NONE) -> "GatewayAddress":
        """Raises BadOption for what is no address, or where the credentials do not go with it; nothing is sent."""
        text = f'{url!r} is no address of a gateway; write .option("url", "http://gateway:8080")'
        if not isinstance(url, str):
            raise BadOption(text)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise BadOption(f"{text} ({error})") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise BadOption(text)
        secure = parts.scheme == "https"
        address = cls(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"))
        _check(address, credentials)
        return address

    @property
    def private(self) -> bool:
        """Tells whether nobody reads on the way: it is encrypted, or never leaves this machine."""
        if self.secure or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def checked_timeout(timeout_ms: int) -> int:
    """Raises BadOption for what is no time to wait."""
    if not isinstance(timeout_ms, int) or isinstance(timeout_ms, bool) or timeout_ms < 1:
        raise BadOption(
            f"timeout_ms is {timeout_ms!r}; it is a whole number of milliseconds, 1 or more, for a call with all its "
            f"tries: write timeout_ms={TIMEOUT_MS:_}, or leave it out"
        )
    return timeout_ms


# What the library of HTTP refuses, it quotes.
_KEY = re.compile(r"[!-~]+")


def _check(address: GatewayAddress, credentials: Credentials) -> None:
    """Tells at once what each request would tell."""
    with_key(address, {}, credentials)
    if not credentials.is_of_tls:
        return
    if not address.secure:
        raise BadOption(
            f"certificates are given, and http://{address.host}:{address.port} takes none; write https://, or leave "
            "them out; nothing was sent"
        )
    credentials.tls()


def with_key(address: GatewayAddress, headers: Mapping[str, str], credentials: Credentials = NONE) -> dict[str, str]:
    """Adds the key to a request's headers, and the trace that it is part of; each if there is one.

    Raises BadOption where others could read it, or no header can carry it; the text never holds the key.
    """
    key, name = credentials.key()
    if not key:
        return {**headers, **trace_headers()}
    if not _KEY.fullmatch(key):
        raise BadOption(f"{name} holds a sign that no key has, such as a space or a line break; nothing was sent")
    if not address.private:
        raise BadOption(
            f"{name} is set, and http://{address.host}:{address.port} would carry the key in clear text; write "
            "https://, or leave the key out for a gateway without keys; nothing was sent"
        )
    return {**headers, **trace_headers(), "Authorization": f"Bearer {key}"}
