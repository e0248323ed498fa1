"""What a run may be called, wherever it lies."""

import re

_RUN = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
TEMPORARY = ".tmp"  # of what is not whole yet


def is_run_name(name: str) -> bool:
    return bool(_RUN.fullmatch(name)) and not name.endswith(TEMPORARY)


def require_run_name(name: str) -> None:
    """ValueError."""
    if not is_run_name(name):
        raise ValueError(
            f"a run is 1 to 64 of a-z, 0-9, '.', '_', '-', the first a letter or digit, without {TEMPORARY}: {name!r}"
        )
