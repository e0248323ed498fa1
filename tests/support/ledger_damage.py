"""Damages copies of a ledger and records the result of opening them."""

import shutil
from collections import Counter
from pathlib import Path

from oncegate.core.errors import KeyMismatch, LedgerDamaged, NotFound
from tests.support.ledger_tools import Seen, judge, look_quickly


def copy_of(root: Path) -> Path:
    here = root / "here"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    for name in ("data", "data.witness"):
        shutil.copytree(root / name, here / name)
    return here / "data"


def files_of(root: Path) -> list[Path]:
    return [path.relative_to(root) for name in ("data", "data.witness") for path in (root / name).rglob("*.*")] + [
        Path("data/LEDGERS"),
        Path("data/default/key"),
        Path("data.witness/LEDGERS"),
    ]


class Verdicts:
    """Damages a copy of the ledger, opens it, and counts the results."""

    def __init__(self, root: Path, whole: Seen) -> None:
        self._root = root
        self._whole = whole
        self._data = copy_of(root)
        self.counts: Counter[str] = Counter()

    def of(self, file: Path, content: bytes | None) -> str:
        """Replaces a file's content (None: removes the file), opens the ledger, and restores everything that
        changed."""
        path = self._data.parent / file
        before = path.read_bytes()
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        found = judge(self._data) or look_quickly(self._data)
        if isinstance(found, Seen):
            verdict = "whole" if found == self._whole else f"SHORT by {len(self._whole.entries) - len(found.entries)}"
            self._data = copy_of(self._root)
        else:
            assert isinstance(found, LedgerDamaged | KeyMismatch | NotFound), found
            verdict = "refused"
            path.write_bytes(before)
        self.counts[verdict] += 1
        return verdict
