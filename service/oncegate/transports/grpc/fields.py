"""Fields of messages: those that may be left out, and those that must have a certain length."""

from typing import Any

from oncegate.core.errors import BadRequest

_BYTES = 16
# Epochs, batches and counts end here, as over HTTP.
_NUMBER_MAX = 2**63 - 1


def given(message: Any, name: str) -> Any:
    """Returns a field that may be left out; None: it was."""
    return getattr(message, name) if message.HasField(name) else None


def sized(raw: bytes, what: str, size: int = _BYTES) -> bytes:
    """Returns bytes that must be so many. Raises BadRequest."""
    if len(raw) != size:
        raise BadRequest(f"{what}: {size} bytes are wanted, not {len(raw)}; nothing was written")
    return raw


def optional_sized(message: Any, name: str, size: int) -> bytes | None:
    """Returns bytes that must be so many, where they are there. Raises BadRequest."""
    found = given(message, name)
    return None if found is None else sized(found, name, size)


def number(value: int, what: str) -> int:
    """Returns a number that is no larger than HTTP takes. Raises BadRequest."""
    if value > _NUMBER_MAX:
        raise BadRequest(f"{what}: a whole number from 0 to {_NUMBER_MAX} is wanted, not {value}; nothing was written")
    return value


def optional_number(message: Any, name: str) -> int | None:
    """Returns such a number, where it is there. Raises BadRequest."""
    found = given(message, name)
    return None if found is None else number(found, name)
