"""Each row that needs one broker, run once, to detect planted bugs. `make test` does not collect it.

    python -m pytest tests/matrix/planted_rows.py -k sleep-read

A row turns red quickly here: an event that does not occur within a minute counts as lost. The start of a gateway has
the patience of the whole matrix, because on a busy machine it takes longer without any bug.
"""

from collections.abc import Iterator

import pytest

from tests.matrix import life, world
from tests.matrix.catalogue import ROWS
from tests.matrix.life import STEPS
from tests.matrix.report import Counted
from tests.matrix.rows import Row
from tests.matrix.runs import Stage, one, run_in, warm_up
from tests.support import gateway_process

pytestmark = [pytest.mark.slow, pytest.mark.server, pytest.mark.timeout(900)]
PATIENCE_S = 60
CASES = [(row, step) for row in ROWS if row.brokers == 1 for step in range(STEPS)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with one(tmp_path_factory.mktemp("stage")) as stage:
        yield stage


@pytest.mark.parametrize(("row", "step"), CASES, ids=[f"{row.name}-{step}" for row, step in CASES])
def test_a_row_of_the_matrix_holds(
    row: Row, step: int, stage: Stage, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.world(*stage, tmp_path_factory.mktemp("world"), row.collecting, row.wait_ms) as struck:
        warm_up(struck, row)
        monkeypatch.setattr(life, "PATIENCE_S", PATIENCE_S)
        monkeypatch.setattr(gateway_process, "START_S", world.PATIENCE_S)
        counted = run_in(struck, Counted(row, asked=1), range(step, step + 1))
    assert (counted.verdict, counted.wrong) == ("seen" if row.control else "holds", [])
