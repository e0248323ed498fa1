"""The page of faults lists each fault once, names existing tests and rows, and gives a reason if it names none."""

import re

import pytest

from tests.docs.pages import ROOT
from tests.matrix.catalogue import ROWS
from tests.matrix.faults import NOT_SHOWN, PAGE, Fault, faults, page, properties

FAULTS = faults()
# Names that rows of the matrix use in addition: failpoints, and the controls.
OTHERS = re.compile(r"F\d+|O10")


def test_the_page_matches_the_list_and_the_matrix() -> None:
    assert PAGE.read_text() == page(FAULTS), "run: python -m tests.matrix.faults"


def test_every_fault_is_there_once() -> None:
    wanted = [f"X{number:02}" for number in range(1, 65)] + [f"K{number}" for number in range(1, 16)]
    wanted += [f"L{number}" for number in range(1, 6)]
    wanted += ["D1", "D1a", "D1b", "D1c", "D2", "D2a", "D3", "D4", "D5", "D6", "D7", "D8", "D9"]
    assert [fault.name for fault in FAULTS] == wanted


def test_every_row_of_the_matrix_is_about_a_fault_of_the_list() -> None:
    known = {fault.name for fault in FAULTS}
    assert [row.name for row in ROWS if not {one for one in row.of.split() if not OTHERS.fullmatch(one)} <= known] == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_evidence_of_a_fault_exists_and_its_absence_is_explained(fault: Fault) -> None:
    assert missing(fault) == []
    assert fault.is_shown or fault.promised.startswith(f"{NOT_SHOWN} ")


def missing(fault: Fault) -> list[str]:
    """Returns the named tests that do not exist."""
    return [test for test in fault.tests if not is_there(*test.split("::"))]


def is_there(path: str, name: str) -> bool:
    return (ROOT / path).is_file() and re.search(rf"def {name}\(", (ROOT / path).read_text()) is not None


def test_a_test_that_is_not_there_would_be_found() -> None:
    named = ("tests/docs/test_faults.py::test_nobody_wrote", "tests/docs/test_nowhere.py::test_x")
    assert missing(Fault("X99", "", "", named, ())) == list(named)


def test_every_property_is_checked_by_a_model_or_a_fault_test() -> None:
    sources = "\n".join(
        path.read_text()
        for folder in ("model", "faults", "matrix", "support")
        for path in (ROOT / "tests" / folder).rglob("*.py")
    )
    names = [name for names, *_ in properties() for name in names.split(", ")]
    assert len(names) > 30
    assert [name for name in names if not re.search(rf"\b{name}\b", sources)] == []
