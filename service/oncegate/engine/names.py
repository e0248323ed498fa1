"""Checks, by one rule, names that callers choose: an app, a batch's version, an owner, a driver, a producer.

And what is kept for them as it is: a source's offsets.
"""

import re

from oncegate.core.errors import BadRequest, TooLarge
from oncegate.engine.limits import Limits

# Each start makes it where it is not there: clients use it that name none.
# What a credential names that is one of all namespaces.
ALL_NAMESPACES = "*"
DEFAULT_NAMESPACE = "default"
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def check_namespace(name: str) -> None:
    """Refuses a name that no namespace may have. Raises BadRequest; nothing was made."""
    if not _NAMESPACE.fullmatch(name):
        raise BadRequest(f"namespace {name!r}: lower-case letters, digits, _ . -, at most 63, no leading dot")


def check_name(what: str, name: str, limits: Limits) -> None:
    """Refuses a name that is empty or too long, before anything was written.

    `what` says whose name it is. Raises BadRequest: it is empty; TooLarge: over `limits.name_bytes` bytes of UTF-8.
    """
    if not name:
        raise BadRequest(f"{what}: the name is empty; nothing was written")
    check_length(what, name, limits)


def check_length(what: str, name: str, limits: Limits) -> None:
    """Refuses a name that is too long; an empty one passes. Raises TooLarge: over `limits.name_bytes` bytes."""
    if (size_bytes := len(name.encode("utf-8", "replace"))) > limits.name_bytes:
        raise TooLarge(f"{what}: a name of {size_bytes} bytes; at most {limits.name_bytes} bytes are taken")


def cut_name(name: str, size_bytes: int) -> str:
    """Cuts a name to its first bytes; what is no character, as half a surrogate pair of a token, becomes `?`."""
    return name.encode("utf-8", "replace")[:size_bytes].decode("utf-8", "ignore")


def check_source_offsets(offsets: bytes, limits: Limits) -> None:
    """Refuses a source's offsets that are too long, before anything was written.

    Raises TooLarge: over `limits.source_offsets_bytes`.
    """
    if len(offsets) > limits.source_offsets_bytes:
        raise TooLarge(
            f"source_offsets of {len(offsets)} bytes; at most {limits.source_offsets_bytes} are kept: leave them out, "
            "then nobody can ask for them; nothing was written"
        )


CLAIMED, TAKEN = "", "dedup"


def produced(topic: str) -> str:
    """Returns the set of rows that are produced to a topic."""
    return topic


def chosen(named: str | None, own: str, limits: Limits) -> str:
    """Returns the set that a request names, which may be empty, or its call's own where it names none. Raises
    TooLarge."""
    if named is None:
        return own
    check_length("id_set", named, limits)
    return named
