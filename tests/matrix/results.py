"""What was counted, kept in a folder after each run, so that nothing that ends the matrix takes it along."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tests.matrix.catalogue import BY_NAME
from tests.matrix.report import Counted, markdown, of_plain


class Results:
    """The rows of `result.json` in a folder: those that were there before, where they are `resumed`, and those run now.

    ValueError: there are none to resume, or they are of another version.
    """

    def __init__(self, folder: Path, *, resumed: bool) -> None:
        self._folder = folder
        self._counted = {one.row.name: one for one in (self._kept() if resumed else ())}

    @property
    def path(self) -> Path:
        """Where they are."""
        return self._folder / "result.json"

    @property
    def all(self) -> list[Counted]:
        """Every row that was asked for, in the order of the matrix."""
        return [self._counted[name] for name in BY_NAME if name in self._counted]

    @property
    def missing(self) -> list[Counted]:
        """The rows of which runs are left."""
        return [one for one in self.all if not one.is_over]

    def ask(self, names: Iterable[str], runs: int) -> list[Counted]:
        """The rows of these names of which runs are left when each is to be run so often; all are kept from now on."""
        asked = [self._counted.setdefault(name, Counted(BY_NAME[name])) for name in names]
        for one in asked:
            one.asked = max(runs, one.runs)
        self._write()
        return [one for one in asked if not one.is_over]

    def take(self, counted: Counted) -> None:
        """Keeps what a row came to up to now."""
        self._counted[counted.row.name] = counted
        self._write()

    def finish(self, command: str) -> None:
        """Writes the page too; `command`: what the rows were run by."""
        (self._folder / "result.md").write_text(markdown(self.all, command))

    def _write(self) -> None:
        """In one step: whoever is killed leaves the file before it, or this one."""
        self._folder.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps([one.plain() for one in self.all], indent=1) + "\n")
        os.replace(new, self.path)

    def _kept(self) -> list[Counted]:
        try:
            return [of_plain(plain) for plain in json.loads(self.path.read_text())]
        except FileNotFoundError:
            raise ValueError(f"there is no {self.path} to go on from: leave --resume out") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is none of this version ({error!r}): leave --resume out") from None
