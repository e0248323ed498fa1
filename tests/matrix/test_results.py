"""The counts survive an interruption of the matrix, and the next run continues from them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.matrix.catalogue import BY_NAME, ROWS
from tests.matrix.report import Counted, of_plain
from tests.matrix.results import Results

FIRST, SECOND, THIRD = (row.name for row in ROWS[:3])
HALF = Counted(BY_NAME[FIRST], asked=50, runs=20, hits=19, seconds=61.5)
WHOLE = Counted(BY_NAME[SECOND], asked=50, runs=50, hits=50, duplicated=1)


def interrupted(folder: Path) -> Results:
    results = Results(folder, resumed=False)
    results.ask([FIRST, SECOND, THIRD], 50)
    results.take(HALF)
    results.take(WHOLE)
    return results


def test_rows_and_runs_that_are_missing_are_named(tmp_path: Path) -> None:
    missing = interrupted(tmp_path).missing
    assert [(one.row.name, one.verdict) for one in missing] == [
        (FIRST, "missing: 30 of 50 runs"),
        (THIRD, "missing: 50 of 50 runs"),
    ]
    assert not any(one.is_good for one in missing)


def test_counted_results_are_there_for_the_next_run_which_runs_the_rest(tmp_path: Path) -> None:
    interrupted(tmp_path)
    results = Results(tmp_path, resumed=True)
    todo = results.ask([FIRST, SECOND, THIRD], 50)
    assert todo == [HALF, Counted(BY_NAME[THIRD], asked=50)]
    assert results.all[1] == WHOLE


def test_rows_that_are_not_asked_for_again_are_kept(tmp_path: Path) -> None:
    interrupted(tmp_path)
    results = Results(tmp_path, resumed=True)
    assert results.ask([THIRD], 3) == [Counted(BY_NAME[THIRD], asked=3)]
    assert results.all[:2] == [HALF, WHOLE]
    Results(tmp_path, resumed=False).ask([THIRD], 3)
    assert [plain["row"] for plain in json.loads((tmp_path / "result.json").read_text())] == [THIRD]


def test_a_row_with_something_wrong_stays_so(tmp_path: Path) -> None:
    results = interrupted(tmp_path)
    results.take(replace(HALF, wrong=["frame 3 follows frame 1"]))
    assert FIRST not in [one.row.name for one in Results(tmp_path, resumed=True).ask([FIRST, THIRD], 50)]


def test_the_result_of_one_row_survives_json() -> None:
    assert of_plain(json.loads(json.dumps(HALF.plain()))) == HALF
    assert HALF.plain()["bound"] == 3 / 19


@pytest.mark.parametrize("text", [None, "{", '[{"row": "of another version"}]'])
def test_a_missing_basis_is_reported(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    with pytest.raises(ValueError, match="leave --resume out"):
        Results(tmp_path, resumed=True)
