"""A row holds only if its fault was met and nothing was duplicated, lost or wrong."""

from dataclasses import replace

import pytest

from tests.matrix.catalogue import ROWS
from tests.matrix.failpoints import POINTS
from tests.matrix.report import Counted, markdown, table

PLAIN = next(row for row in ROWS if not row.control)
CONTROL = next(row for row in ROWS if row.control)
GOOD = Counted(PLAIN, asked=50, runs=50, hits=48, seconds=61.2)


@pytest.mark.parametrize(
    ("counted", "verdict", "is_good"),
    [
        (GOOD, "holds", True),
        (replace(GOOD, duplicated=1), "BROKEN", False),
        (replace(GOOD, lost=1), "BROKEN", False),
        (replace(GOOD, hits=0), "never hit, shows nothing", False),
        (replace(GOOD, wrong=["two\nlines"]), "two", False),
        (replace(GOOD, runs=20), "missing: 30 of 50 runs", False),
        (replace(GOOD, runs=20, lost=1), "BROKEN", False),
        (Counted(CONTROL, runs=3, hits=3, duplicated=9), "seen", True),
        (Counted(CONTROL, runs=3, hits=3), "no duplicates seen: the check is blind", False),
    ],
)
def test_a_verdict_describes_what_a_row_shows(counted: Counted, verdict: str, is_good: bool) -> None:
    assert (counted.verdict, counted.is_good) == (verdict, is_good)


def test_the_bound_is_three_over_the_runs_that_were_hit() -> None:
    assert f"| 50 | 48 | 0 | 0 | {3 / 48:.2f} | 61 | holds |" in markdown([GOOD], "make matrix")
    assert table([GOOD]).row_count == 1


def test_names_of_rows_are_each_there_once() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert len(set(POINTS)) == len(POINTS)
