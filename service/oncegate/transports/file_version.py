"""Detects that a file was edited or replaced, so that keys and certificates are reloaded without a restart."""

from pathlib import Path

FileVersion = tuple[int, int, int]


def version_of(path: Path | None) -> FileVersion | None:
    """Returns a value that differs after each change to a file; None if the file does not exist or is inaccessible."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
