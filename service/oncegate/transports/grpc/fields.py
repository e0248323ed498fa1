"""Reads optional fields of messages, and checks lengths and ranges."""

from typing import Any

from oncegate.core.errors import BadRequest

_BYTES = 16
# Maximum of epochs, batches and counts, as over HTTP.
_NUMBER_MAX = 2**63 - 1


def given(message: Any, name: str) -> Any:
    """Returns an optional field; None if it is not set."""
    return getattr(message, name) if message.HasField(name) else None


def sized(raw: bytes, what: str, size: int = _BYTES) -> bytes:
    """Returns `raw` if it has `size` bytes. Raises BadRequest."""
    if len(raw) != size:
        raise BadRequest(f"{what}: {size} bytes are wanted, not {len(raw)}; nothing was written")
    return raw


def optional_sized(message: Any, name: str, size: int) -> bytes | None:
    """Returns an optional field of `size` bytes. Raises BadRequest for another length."""
    found = given(message, name)
    return None if found is None else sized(found, name, size)


def number(value: int, what: str) -> int:
    """Returns a number, checked against the range that HTTP allows. Raises BadRequest."""
    if value > _NUMBER_MAX:
        raise BadRequest(f"{what}: a whole number from 0 to {_NUMBER_MAX} is wanted, not {value}; nothing was written")
    return value


def optional_number(message: Any, name: str) -> int | None:
    """Returns an optional number, checked against the range that HTTP allows. Raises BadRequest."""
    found = given(message, name)
    return None if found is None else number(found, name)
