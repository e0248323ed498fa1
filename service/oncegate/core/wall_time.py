"""Writes times of the wall's clock as people read them."""

from datetime import UTC, datetime


def text_of(wall_ms: int) -> str:
    """Returns milliseconds since 1970 as a time in UTC (RFC 3339), to the millisecond."""
    return datetime.fromtimestamp(wall_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
