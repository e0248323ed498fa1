"""Exit status 0 only if every fault was hit, `plain` shows duplicates, and every promise held."""

from dataclasses import replace
from pathlib import Path

import pytest

from demo.matrix import report
from demo.matrix.report import Cell
from demo.matrix.runs import FAULTS, WAYS, Run
from demo.matrix.supervisor import Counted


def good() -> dict[str, dict[str, Cell]]:
    numbers = {"plain": (9, 0, 0), "claim": (2, 0, 3)}
    return {fault: {way: Cell(2, 2, *numbers.get(way, (0, 0, 0))) for way in WAYS} for fault in FAULTS}


def test_a_good_matrix_has_no_failures() -> None:
    assert report.failures(good()) == []


@pytest.mark.parametrize(
    ("way", "change", "told"),
    [
        ("ids", {"hits": 0}, "task_error, ids: hit in 0 of 2 runs, so it shows nothing"),
        ("ids", {"duplicated": 1}, "task_error, ids: 1 duplicated"),
        ("staged", {"duplicated": 1}, "task_error, staged: 1 duplicated"),
        ("dedup", {"duplicated": 1}, "task_error, dedup: 1 duplicated"),
        ("claim", {"duplicated": 4}, "task_error, claim: 4 duplicated, only 3 taken over"),
        ("claim", {"lost": 1}, "task_error, claim: 1 lost"),
        ("plain", {"lost": 1}, "task_error, plain: 1 lost"),
        ("plain", {"duplicated": 0}, "task_error, plain: no duplicates, so the fault proves nothing for the others"),
    ],
)
def test_missing_evidence_is_reported_by_fault_and_way(way: str, change: dict[str, int], told: str) -> None:
    shown = good()
    shown["task_error"][way] = replace(shown["task_error"][way], **change)
    assert report.failures(shown) == [told]


def test_a_fault_of_the_network_need_not_make_duplicates_in_plain() -> None:
    shown = good()
    shown["reply_lost"]["plain"] = Cell(2, 2, 0, 0, 0)
    assert report.failures(shown) == []


def test_a_cell_adds_up_its_runs() -> None:
    runs = [Run("task_error", "claim", "count", number, 1, "/nowhere") for number in range(2)]
    counted = [Counted(runs[0], True, 3, 0, 4), Counted(runs[1], False, 1, 2, 1)]
    assert report.cells(counted) == {"task_error": {"claim": Cell(2, 1, 4, 2, 5)}}


def test_the_table_shows_duplicates_losses_and_how_often_the_fault_was_hit(tmp_path: Path) -> None:
    shown = {"task_error": {"plain": Cell(2, 2, 9, 0, 0), "claim": Cell(2, 1, 2, 0, 3)}}
    report.write(tmp_path, shown, [], "make spark-matrix", 90)
    lines = (tmp_path / "result.md").read_text().splitlines()
    assert lines[0].startswith("`make spark-matrix`, 4 runs, 2 a cell, in 2 minutes; ")
    assert lines[-3] == "| fault | hit, of its runs | plain | claim |"
    assert lines[-1] == (
        "| `task_error`: a task raises when it has written | 3 of 4 | 9 / 0 | 2 / 0, *3*, hit in 1 of 2 |"
    )
