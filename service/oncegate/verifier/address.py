"""Reads the address of a running gateway, for whatever asks one."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from oncegate.core.errors import BadRequest, NotFound

# As the clients have it: read from the environment, so that no command line shows it.
API_KEY = "ONCEGATE_API_KEY"


def address_of(url: str) -> SplitResult:
    """Returns the parts of an address, whose `hostname` and `port` can be read.

    Raises NotFound: it is none of a gateway. What stands before an @ may be a password, and is not shown.
    """
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_one = None, False
    if "@" in url:
        raise NotFound(f"the gateway's address has an @: a key is not sent so, it is read from {API_KEY}")
    if parts is None or not is_one or parts.query or parts.fragment:
        raise NotFound(f"{url} is no address of a gateway; write --url http://127.0.0.1:8080")
    return parts


def check_private(parts: SplitResult, secret: str = API_KEY) -> None:
    """Raises BadRequest where a key that is sent to this address could be read on the way. `secret`: its variable."""
    if parts.scheme == "https" or parts.hostname == "localhost":
        return
    try:
        private = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        private = False
    if not private:
        raise BadRequest(f"{secret} would be read on the way to {parts.netloc}: write https://, or unset it")
