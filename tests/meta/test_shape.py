"""The house's rules about its own shape: files, functions, folders and ports that a person can hold."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.support.tree import functions, name_of, sources

FILE_LINES_MAX = 440
FUNCTION_LINES_MAX = 50
FOLDER_FILES_MAX = 14

PACKAGES = sources("service", "spark_client")
EVERYTHING = PACKAGES + sources("demo", "bench", "scripts", "tests")


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_no_file_is_longer_than_a_person_can_hold(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", EVERYTHING, ids=name_of)
def test_no_function_is_longer_than_a_screen(path: Path) -> None:
    long = {function.name: body_lines(function) for function in functions(ast.parse(path.read_text()))}
    assert not {name: lines for name, lines in long.items() if lines > FUNCTION_LINES_MAX}


def test_no_folder_holds_more_files_than_a_person_can_survey() -> None:
    files = Counter(path.parent for path in PACKAGES if path.name != "__init__.py")
    assert not {name_of(folder): count for folder, count in files.items() if count > FOLDER_FILES_MAX}


def test_an_option_that_several_verbs_have_is_declared_once() -> None:
    """Two declarations of one option differ one day: its help, its name, what it refuses."""
    declared = Counter(
        ast.unparse(node.value)
        for path in sources("service/oncegate/cli")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and "typer.Option(" in ast.unparse(node.value)
    )
    assert declared
    assert not {option: count for option, count in declared.items() if count > 1}


@pytest.mark.parametrize("path", sources("service/oncegate/ports"), ids=lambda path: path.name)
def test_a_port_has_at_most_four_members(path: Path) -> None:
    """Properties count, as methods do."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases):
            members = [
                item.target.id if isinstance(item, ast.AnnAssign) else item.name  # type: ignore[attr-defined]
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.AnnAssign)
            ]
            assert 1 <= len(members) <= 4, (node.name, members)
