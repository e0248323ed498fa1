"""Notes the writer that a request names, between the door that reads it and the engine that keeps it."""

from contextvars import ContextVar

_CURRENT: ContextVar[bytes] = ContextVar("writer", default=b"")


def set_current_writer(writer: bytes) -> None:
    """Notes the writer whose request this task answers, as of `core.writers`; empty: it did not name itself."""
    _CURRENT.set(writer)


def current_writer() -> bytes:
    """Returns the writer whose request this task answers; empty: it did not name itself."""
    return _CURRENT.get()
