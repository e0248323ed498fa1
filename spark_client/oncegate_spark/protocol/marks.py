"""The newest mark of a ledger: what a gateway must know at least, else it is not the one we spoke to.

A mark is `<ledger id>:<position>:<chain>`, in the header `Oncegate-Ledger`. It is brought with every request; a gateway
that does not find it in its ledger refuses that request.
"""

import logging
from pathlib import Path
from urllib.parse import quote, unquote

from oncegate_spark.disk import replace_file

HEADER = "Oncegate-Ledger"

log = logging.getLogger("oncegate_spark")


class Newest:
    """The newest of the marks seen, for one namespace."""

    def __init__(self, mark: str | None = None) -> None:
        self._mark: str | None = None
        self.note(mark)

    @property
    def mark(self) -> str | None:
        """The newest mark seen; None before the first."""
        return self._mark

    def note(self, header: str | None) -> None:
        """Take what a reply carried. Another ledger's mark replaces ours: its gateway has answered for ours."""
        for mark in (header or "").split(","):
            mark = mark.strip()
            if _position(mark) is None:
                continue
            if self._mark is None or not _same_ledger(mark, self._mark) or _later(mark, self._mark):
                self._mark = mark

    def forget(self) -> None:
        """Bring no mark any more: the ledger that gave them was deleted."""
        self._mark = None


def read(checkpoint: Path | None, namespace: str) -> str | None:
    """The mark kept beside a checkpoint; None when there is none."""
    if checkpoint is None:
        return None
    try:
        return _file(checkpoint, namespace).read_text("ascii").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_all(checkpoint: Path | None) -> dict[str, str]:
    """Every mark kept beside a checkpoint, by namespace."""
    if checkpoint is None:
        return {}
    names = [unquote(file.name.removesuffix(".mark")) for file in sorted((checkpoint / "oncegate").glob("*.mark"))]
    return {name: mark for name in names if (mark := read(checkpoint, name))}


def keep(checkpoint: Path | None, namespace: str, mark: str | None) -> None:
    """Keep a mark for the next start. What it marks has been written already, so a failure here is only logged."""
    if checkpoint is None or mark is None:
        return
    newest = Newest(read(checkpoint, namespace))
    newest.note(mark)
    if newest.mark != mark:
        return
    file = _file(checkpoint, namespace)
    try:
        replace_file(file, f"{mark}\n".encode("ascii"))
    except OSError as error:
        log.warning("the ledger's mark cannot be kept in %s (%s); an older ledger would not be noticed", file, error)


def _file(checkpoint: Path, namespace: str) -> Path:
    return checkpoint / "oncegate" / f"{quote(namespace, safe='')}.mark"


def _position(mark: str) -> int | None:
    parts = mark.split(":")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None


def _same_ledger(first: str, second: str) -> bool:
    return first.split(":")[0] == second.split(":")[0]


def _later(first: str, second: str) -> bool:
    return (_position(first) or 0) > (_position(second) or 0)
