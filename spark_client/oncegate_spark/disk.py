"""Writes folders, names and files so that they survive a power failure once a function here has returned."""

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder and those missing above it, each with its name synced; no effect where it is there.

    `mode`: of the folder itself. Raises OSError.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder: those that were made, changed or removed. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def replace_file(file: Path, data: bytes) -> None:
    """Replace a file by these bytes; a crash leaves the whole old file or the whole new one.

    Its folder is made where it is missing. Raises OSError: the file is as it was, or, where its
    folder cannot be synced, the new one; nothing else is left.
    """
    make_folder(file.parent)
    new = file.with_name(f"{file.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(file.parent)
