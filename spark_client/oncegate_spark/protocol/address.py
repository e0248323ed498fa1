"""Checks of a gateway's address, credentials and timeout, shared by both clients; no sockets."""

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
    """Address of a gateway; `prefix` precedes every path."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def of(cls, url: str, credentials: Credentials = NONE) -> "GatewayAddress":
        """Parses a URL.

        Raises BadOption if the URL is not an address of a gateway or does not fit the credentials; nothing was sent.
        """
        text = f'{url!r} is not the address of a gateway; write .option("url", "http://gateway:8080")'
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
        """True if the connection is encrypted or never leaves this machine."""
        if self.secure or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def checked_timeout(timeout_ms: int) -> int:
    """Returns the timeout. Raises BadOption unless it is a positive integer."""
    if not isinstance(timeout_ms, int) or isinstance(timeout_ms, bool) or timeout_ms < 1:
        raise BadOption(
            f"timeout_ms is {timeout_ms!r}; it must be a whole number of milliseconds, 1 or more, for a call including "
            f"its retries: write timeout_ms={TIMEOUT_MS:_}, or omit it"
        )
    return timeout_ms


# The HTTP library quotes a header value that it rejects, which would put the key into an error message.
_KEY = re.compile(r"[!-~]+")


def _check(address: GatewayAddress, credentials: Credentials) -> None:
    """Raises, before any request, the errors that every request would raise."""
    with_key(address, {}, credentials)
    if not credentials.is_of_tls:
        return
    if not address.secure:
        raise BadOption(
            f"certificates are set, and http://{address.host}:{address.port} does not use TLS; write https://, or omit "
            "the certificates; nothing was sent"
        )
    credentials.tls()


def with_key(address: GatewayAddress, headers: Mapping[str, str], credentials: Credentials = NONE) -> dict[str, str]:
    """Returns a request's headers with the API key and the trace context, if there are any.

    Raises BadOption if the key would be sent in clear text or is not a valid header value. The message never contains
    the key.
    """
    key, name = credentials.key()
    if not key:
        return {**headers, **trace_headers()}
    if not _KEY.fullmatch(key):
        raise BadOption(
            f"{name} contains a character that no key has, such as a space or a line break; nothing was sent"
        )
    if not address.private:
        raise BadOption(
            f"{name} is set, and http://{address.host}:{address.port} would send the key in clear text; write "
            "https://, or omit the key for a gateway without keys; nothing was sent"
        )
    return {**headers, **trace_headers(), "Authorization": f"Bearer {key}"}
