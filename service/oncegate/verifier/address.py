"""Parses a running gateway's address, for programs that call the gateway."""

import ipaddress
from urllib.parse import SplitResult, urlsplit

from oncegate.core.errors import BadRequest, NotFound

# The clients' variable: read from the environment, so that no command line shows the key.
API_KEY = "ONCEGATE_API_KEY"


def address_of(url: str) -> SplitResult:
    """Returns the parts of an address, with a valid `hostname` and `port`.

    Raises NotFound if it is not the address of a gateway. The text before an @ may be a password and is not shown.
    """
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_one = None, False
    if "@" in url:
        raise NotFound(f"the gateway's address has an @: set {API_KEY} to send a key")
    if parts is None or not is_one or parts.query or parts.fragment:
        raise NotFound(f"{url} is not the address of a gateway; write --url http://127.0.0.1:8080")
    return parts


def check_private(parts: SplitResult, secret: str = API_KEY) -> None:
    """Raises BadRequest if a secret sent to this address could be read in transit. secret: the variable that holds
    it."""
    if parts.scheme == "https" or parts.hostname == "localhost":
        return
    try:
        private = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        private = False
    if not private:
        raise BadRequest(f"{secret} would be sent unencrypted to {parts.netloc}: write https://, or unset it")
