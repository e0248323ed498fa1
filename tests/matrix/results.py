"""The counts, stored in a folder after each run, so that no interruption loses them."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from tests.matrix.catalogue import BY_NAME
from tests.matrix.report import Counted, markdown, of_plain


class Results:
    """The rows of `result.json` in a folder: earlier ones if `resumed`, and those run now.

    Raises ValueError if there are none to resume, or if another version wrote them.
    """

    def __init__(self, folder: Path, *, resumed: bool) -> None:
        self._folder = folder
        self._counted = {one.row.name: one for one in (self._kept() if resumed else ())}

    @property
    def path(self) -> Path:
        return self._folder / "result.json"

    @property
    def all(self) -> list[Counted]:
        """Returns every requested row, in the order of the matrix."""
        return [self._counted[name] for name in BY_NAME if name in self._counted]

    @property
    def missing(self) -> list[Counted]:
        """Returns the rows with runs left."""
        return [one for one in self.all if not one.is_over]

    def ask(self, names: Iterable[str], runs: int) -> list[Counted]:
        """Requests `runs` runs of each of these rows and returns those with runs left; all are stored from now on."""
        asked = [self._counted.setdefault(name, Counted(BY_NAME[name])) for name in names]
        for one in asked:
            one.asked = max(runs, one.runs)
        self._write()
        return [one for one in asked if not one.is_over]

    def take(self, counted: Counted) -> None:
        """Stores the present counts of a row."""
        self._counted[counted.row.name] = counted
        self._write()

    def finish(self, command: str) -> None:
        """Writes the page too; `command`: the command that ran the rows."""
        (self._folder / "result.md").write_text(markdown(self.all, command))

    def _write(self) -> None:
        """Replaces the file atomically: a kill leaves the old file or the new one."""
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
