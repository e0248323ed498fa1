"""Creates folders and replaces files so that they survive a power failure once the function has returned."""

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Creates a folder and its missing parents, and syncs each name; does nothing if it exists.

    `mode`: of the folder itself. Raises OSError.
    """
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Syncs the names in a folder after one was created, changed or removed. Raises OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def replace_file(file: Path, data: bytes) -> None:
    """Replaces a file; a crash leaves either the complete old file or the complete new one.

    Creates its folder if missing. Raises OSError: the old file is unchanged or, if only its folder could not be synced,
    the new file is in place.
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
