"""Formats wall-clock times."""

from datetime import UTC, datetime


def text_of(wall_ms: int) -> str:
    """Returns a time in UTC (RFC 3339) with milliseconds. wall_ms: milliseconds since 1970."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
