"""The name that a request has in problems and in the log: the caller's `traceparent` (W3C), or one made here."""

import re
import secrets
from collections.abc import Iterable

_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


def trace_id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """32 hex digits; `headers`: fields with lower-case names."""
    for name, value in headers:
        if name == b"traceparent" and (match := _TRACEPARENT.fullmatch(value)):
            return str(match[1].decode())
    return secrets.token_hex(16)
