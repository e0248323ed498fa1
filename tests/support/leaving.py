"""Copies a folder in the state in which a killed process leaves it."""

import shutil
from pathlib import Path


def copy_as_left(folder: Path, to: Path) -> None:
    """Copies the folder while its owner may still be removing unneeded files; these may be missing from the copy."""
    shutil.copytree(folder, to, copy_function=_copy_if_there)


def _copy_if_there(file: str, to: str) -> None:
    try:
        shutil.copy2(file, to)
    except FileNotFoundError:
        Path(to).unlink(missing_ok=True)
