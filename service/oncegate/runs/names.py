"""Says what a file of runs may be called, wherever it lies."""

import re

TEMPORARY = ".tmp"  # ends the name of what is not whole yet
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def is_run_name(name: str) -> bool:
    """Tells whether a whole file may have this name."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(TEMPORARY)


def require_run_name(name: str) -> None:
    """Raises ValueError unless a whole file may have this name."""
    if not is_run_name(name):
        raise ValueError(
            f"a run is 1 to 64 of a-z, 0-9, '.', '_', '-', the first a letter or digit, without {TEMPORARY}: {name!r}"
        )
