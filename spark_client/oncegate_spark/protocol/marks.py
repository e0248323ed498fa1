"""Ledger positions that replies carry, with which a client detects a gateway whose ledger lost entries.

A position ("mark" on the wire) is `<ledger id>:<position>:<chain>` in the header `Oncegate-Ledger`. Every request
carries the newest one; a gateway whose ledger does not contain it refuses the request.
"""

import logging
from pathlib import Path
from urllib.parse import quote, unquote

from oncegate_spark.disk import replace_file

HEADER = "Oncegate-Ledger"

log = logging.getLogger("oncegate_spark")


class Newest:
    """The newest ledger position seen in one namespace."""

    def __init__(self, mark: str | None = None) -> None:
        self._mark: str | None = None
        self.note(mark)

    @property
    def mark(self) -> str | None:
        return self._mark

    def note(self, header: str | None) -> None:
        """Records the positions of a reply. A position in another ledger replaces ours, since its gateway has accepted
        ours.
        """
        for mark in (header or "").split(","):
            mark = mark.strip()
            if _position(mark) is None:
                continue
            if self._mark is None or not _same_ledger(mark, self._mark) or _later(mark, self._mark):
                self._mark = mark

    def forget(self) -> None:
        """Forgets the position, since its ledger was deleted."""
        self._mark = None


def read(checkpoint: Path | None, namespace: str) -> str | None:
    """Reads the position kept in a checkpoint; None if there is none."""
    if checkpoint is None:
        return None
    try:
        return _file(checkpoint, namespace).read_text("ascii").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_all(checkpoint: Path | None) -> dict[str, str]:
    """Reads all positions kept in a checkpoint, by namespace."""
    if checkpoint is None:
        return {}
    names = [unquote(file.name.removesuffix(".mark")) for file in sorted((checkpoint / "oncegate").glob("*.mark"))]
    return {name: mark for name in names if (mark := read(checkpoint, name))}


def keep(checkpoint: Path | None, namespace: str, mark: str | None) -> None:
    """Stores a position for the next start. The rows it covers are already written, so a failure is only logged."""
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
        log.warning(
            "cannot store the ledger position in %s (%s); a gateway with an older ledger may go unnoticed", file, error
        )


def _file(checkpoint: Path, namespace: str) -> Path:
    return checkpoint / "oncegate" / f"{quote(namespace, safe='')}.mark"


def _position(mark: str) -> int | None:
    parts = mark.split(":")
    return int(parts[1]) if len(parts) == 3 and parts[1].isdigit() else None


def _same_ledger(first: str, second: str) -> bool:
    return first.split(":")[0] == second.split(":")[0]


def _later(first: str, second: str) -> bool:
    return (_position(first) or 0) > (_position(second) or 0)
