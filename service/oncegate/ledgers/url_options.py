"""Parses the options in ledger URLs; each error names the option."""

import re
from pathlib import Path

from oncegate.core.errors import BadRequest

_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")


def without_passwords(url: str) -> str:
    """Returns a ledger URL without passwords, for display. No URL accepts one, but a user may have written one."""
    scheme, _, place = url.partition(":")
    if "@" in place:
        url = f"{scheme}:***@{place.rpartition('@')[2]}"
    return re.sub("password=[^&]*", "password=***", url)


def any_number(name: str, value: str) -> int:
    """Returns an integer of at least 0. Raises BadRequest."""
    if not _NUMBER.fullmatch(value):
        raise BadRequest(f"{name}={value} of the ledger's URL is not a whole number")
    return int(value)


def number(name: str, value: str) -> int:
    """Returns an integer of at least 1. Raises BadRequest."""
    if not _NUMBER.fullmatch(value) or value == "0":
        raise BadRequest(f"{name}={value} of the ledger's URL is not a whole number from 1")
    return int(value)


def file(name: str, value: str) -> Path:
    """Returns the path of an existing file. Raises BadRequest."""
    path = Path(value)
    if not path.is_file():
        raise BadRequest(f"{name}={value} of the ledger's URL is no file")
    return path


def folder(name: str, value: str) -> Path:
    """Returns the path of a folder, which may not exist yet. Raises BadRequest."""
    path = Path(value)
    if not value or (path.exists() and not path.is_dir()):
        raise BadRequest(f"{name}={value} of the ledger's URL is no folder")
    return path


def yes(name: str, value: str) -> bool:
    """Parses `yes` or `no`. Raises BadRequest for other values."""
    if value not in ("yes", "no"):
        raise BadRequest(f"{name}={value} of the ledger's URL is neither yes nor no")
    return value == "yes"


def require_keys(master_key: Path | None, old_master_key: Path | None, bare_key: bool, where: str) -> None:
    """Raises BadRequest unless the URL has either a master key or `bare_key=yes`.

    `where` names the data that others must not be able to read if keys are bare.
    """
    if old_master_key and not master_key:
        raise BadRequest("the ledger's URL has old_master_key without master_key")
    if bare_key and master_key:
        raise BadRequest("the ledger's URL has both bare_key and master_key: keys are wrapped or they are not")
    if not (master_key or bare_key):
        raise BadRequest(
            "the ledger's URL has no master_key: make one (openssl rand -hex 32 > master.key) and name the file; "
            f"bare_key=yes does without, where reading the {where} is forbidden to all others"
        )
