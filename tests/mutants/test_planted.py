"""Every planted bug has one place, changes the program, and can be imported; its tests exist."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT, main
from tests.mutants.kafka_models import KAFKA_MODELS
from tests.mutants.mutant import Mutant
from tests.mutants.neighbours import EXPLAINED, TESTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_has_its_place_and_its_tests(mutant: Mutant) -> None:
    for path, planted in mutant.planted(ROOT).items():
        source = (ROOT / path).read_text()
        if path.endswith(".py"):
            # A module that cannot be imported fails every test, and proves nothing about them.
            compile(planted, path, "exec")
            planted, source = (ast.dump(ast.parse(one)) for one in (planted, source))
        assert planted != source
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists(), path
        if Path(path).suffix == ".py" and name:
            assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), test


# These bugs need several verbs or a restart together. A new bug needs a module's own test.
BY_WALKS_ALONE = {
    "produce over a live claim",
    "every partition's entry names every id",
    "taken by anybody",
    "owner forgotten",
    "compacted without its buckets",
    "partition by turn",
    "an undo brings back how many left",
    "a row that represents sealed ids retires",
}


def test_no_more_bugs_than_these_are_left_to_walks_alone() -> None:
    # The first walks over the ledger on Kafka are always the same, and name the broken invariant.
    by_model = {mutant.name for mutant in KAFKA_MODELS}
    assert {mutant.name for mutant in MUTANTS if mutant.seen_by == "walk"} == BY_WALKS_ALONE | by_model


def test_the_cases_of_tests_that_planted_bugs_name_exist() -> None:
    cases = {test for mutant in MUTANTS for test in mutant.tests if test.endswith("]")}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    files = sorted({case.partition("::")[0] for case in cases})
    listed = subprocess.run([*command, *files], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert cases <= set(listed.splitlines())


def test_neighbours_that_are_left_out_or_have_tests_of_their_own_belong_to_a_planted_bug() -> None:
    names = {name.partition(", off by one")[0] for name in (*EXPLAINED, *TESTS)}
    assert names <= {mutant.name for mutant in MUTANTS}


def test_a_name_that_no_planted_bug_has_is_refused_before_any_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr("tests.mutants.__main__.try_all")
    for words, said in (
        ([MUTANTS[0].name, "no such bug"], "no planted bug has the name 'no such bug'"),
        (["--below", "service/nowhere"], "none of them is planted below service/nowhere"),
    ):
        monkeypatch.setattr("sys.argv", ["mutants", *words])
        with pytest.raises(SystemExit, match="2"):
            main()
        assert said in capsys.readouterr().err
