"""Some rows of the matrix, each once; `make matrix` runs all of them, 50 times each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.matrix.rows import ROWS
from tests.matrix.runs import Stage, one, run

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]
BY_NAME = {row.name: row for row in ROWS}
# One of each kind (a lost and a late answer, a late record, kills on both sides of the commit, an owner that slept)
# and the append that is struck: a claim, its completion, rows.
SHORT = {
    "end-answer-lost": 0,
    "end-late": 1,
    "produce-late": 2,
    "kill-with-end": 0,
    "kill-committed": 1,
    "open-owned": 0,
    "sleep-before-end": 2,
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with one(tmp_path_factory.mktemp("matrix")) as stage:
        yield stage


@pytest.mark.parametrize(("name", "step"), SHORT.items())
def test_a_gateway_over_kafka_that_is_struck_loses_and_doubles_nothing(
    name: str, step: int, stage: Stage, tmp_path: Path
) -> None:
    counted = run(BY_NAME[name], range(step, step + 1), stage, tmp_path)
    assert (counted.verdict, counted.wrong) == ("holds", [])


def test_a_writer_that_writes_each_try_anew_is_seen_to_double(stage: Stage, tmp_path: Path) -> None:
    counted = run(BY_NAME["control-kill"], range(1), stage, tmp_path)
    assert counted.verdict == "seen"
    assert counted.duplicated >= counted.hits > 0
