"""Checks names that callers choose: apps, batch versions, owners, drivers, producers; and the size of source
offsets."""

import re

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits

# `ALL_NAMESPACES` in a credential grants every namespace. Each start creates the default namespace if it is missing;
# clients that name none use it.
ALL_NAMESPACES = "*"
DEFAULT_NAMESPACE = "default"
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def check_namespace(name: str) -> None:
    """Raises BadRequest if this is not a valid namespace name; nothing was created."""
    if not _NAMESPACE.fullmatch(name):
        raise BadRequest(f"namespace {name!r}: lower-case letters, digits, _ . -, at most 63, no leading dot")


def check_name(what: str, name: str, limits: Limits) -> None:
    """Raises BadRequest if a name is empty, TooLarge if it has more than `limits.name_bytes` bytes of UTF-8.

    `what` describes the name in the error. Nothing was written.
    """
    if not name:
        raise BadRequest(f"{what}: the name is empty; nothing was written")
    check_length(what, name, limits)


def check_length(what: str, name: str, limits: Limits) -> None:
    """Raises TooLarge if a name has more than `limits.name_bytes` bytes of UTF-8; an empty name is valid."""
    if (size_bytes := len(name.encode("utf-8", "replace"))) > limits.name_bytes:
        raise TooLarge(f"{what}: a name of {size_bytes} bytes; at most {limits.name_bytes} bytes are taken")


def cut_name(name: str, size_bytes: int) -> str:
    """Cuts a name to its first bytes; invalid characters, such as half a surrogate pair, become `?`."""
    return name.encode("utf-8", "replace")[:size_bytes].decode("utf-8", "ignore")


def check_source_offsets(offsets: bytes, limits: Limits) -> None:
    """Raises TooLarge if offsets have more than `limits.source_offsets_bytes` bytes; nothing was written."""
    if len(offsets) > limits.source_offsets_bytes:
        raise TooLarge(
            f"source_offsets of {len(offsets)} bytes; at most {limits.source_offsets_bytes} are kept: leave them out, "
            "then nobody can ask for them; nothing was written"
        )


CLAIMED, TAKEN = "", "dedup"


def produced(topic: str) -> str:
    """Returns the default dedup scope of rows that are produced to a topic."""
    return topic


def chosen(named: str | None, own: str, limits: Limits) -> str:
    """Returns the dedup scope named in the request (possibly ""), or `own`, the default of the call, if it names none.
    Raises TooLarge."""
    if named is None:
        return own
    check_length("id_set", named, limits)
    return named
