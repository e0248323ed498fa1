"""Detects that a file was edited or replaced: keys and certificates are reloaded then, without a restart."""

from pathlib import Path

FileVersion = tuple[int, int, int]


def version_of(path: Path | None) -> FileVersion | None:
    """Returns a value that differs after each change of a file; None: there is no file, or it cannot be looked at."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
