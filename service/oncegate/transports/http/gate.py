"""Tells for whom a request is, from which site, and how long its head is, before its path is looked at.

A page of any site can make a browser call an address of its user's machine, under a name that the site's owner lets
point there (DNS rebinding). The browser says that name as `Host`, and the page's site as `Origin`.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from starlette.types import Scope

from oncegate.core.errors import BadRequest, ForeignOrigin, HeadTooLarge, Misdirected, OncegateError, TargetTooLong
from oncegate.transports.decode.identifiers import shortened

# What a head may have: as much as one read of the socket brings. Nobody's admission counts it.
HEAD_BYTES = 256 << 10
# An id of 16 columns, percent-encoded, has less.
TARGET_BYTES = 32 << 10
# Only a process of this machine is reached by these.
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")


class Gate:
    """Knows the names by which this gateway is called."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = LOOPBACK | {name.strip().lower() for name in names if name.strip()}
        # The last header fields that were let in: a client's next request has the same ones, as a rule.
        self._let_in: object = None

    def refusal(self, scope: Scope) -> OncegateError | None:
        """Returns what is wrong with a request's head; None: nothing is."""
        fields = scope["headers"]
        target_bytes = len(scope["raw_path"]) + len(scope["query_string"])
        if fields == self._let_in and target_bytes <= TARGET_BYTES:
            return None
        hosts = [value for name, value in fields if name == b"host"]
        origins = [value for name, value in fields if name == b"origin"]
        wrong = self._of_host(hosts) or _of_origin(origins, hosts[0]) or too_long(target_bytes, fields)
        if wrong is None:
            self._let_in = fields
        return wrong

    def _of_host(self, hosts: Sequence[bytes]) -> OncegateError | None:
        if len(hosts) != 1:
            return BadRequest(f"a request has one header Host, this one has {len(hosts)}; nothing was written")
        name = _name_of(hosts[0])
        if name is None:
            return BadRequest(f"Host is no name: {shortened(hosts[0].decode('latin-1'))}; nothing was written")
        if name in self._names:
            return None
        known = ", ".join(sorted(self._names))
        return Misdirected(f"{name} is no name of this gateway ({known}): the setting `hosts` adds one")


def _of_origin(origins: Sequence[bytes], host: bytes) -> OncegateError | None:
    """A page's own site is that which it calls; any other, also one of another port, is refused."""
    own = {b"http://" + host.lower(), b"https://" + host.lower()}
    for origin in origins:
        if origin.lower() not in own:
            return ForeignOrigin(f"a page of {shortened(origin.decode('latin-1'))} sends this; nothing was written")
    return None


@lru_cache(64)
def _name_of(host: bytes) -> str | None:
    """The name in `Host` without its port; None where it is none."""
    match = _HOST.fullmatch(host.decode("latin-1").lower())
    return None if match is None else match[1]


def too_long(target_bytes: int, fields: Iterable[tuple[bytes, bytes]]) -> OncegateError | None:
    """Returns the refusal of a target that is too long, or of header fields that are too large together."""
    if target_bytes > TARGET_BYTES:
        return TargetTooLong(f"a path with its query of {target_bytes} bytes; at most {TARGET_BYTES} are read")
    size_bytes = sum(len(name) + len(value) + 4 for name, value in fields)
    if size_bytes > HEAD_BYTES:
        return HeadTooLarge(f"header fields of {size_bytes} bytes; at most {HEAD_BYTES} are read")
    return None
