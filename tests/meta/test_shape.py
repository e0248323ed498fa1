"""The house's rules about its own shape."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
GENERATED = {"_generated_verdicts.py"}


def sources(*folders: str) -> list[Path]:
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py")) if p.name not in GENERATED]


CODE = sources("service", "spark_client", "demo", "bench", "scripts")
EVERYTHING = CODE + sources("tests")


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_a_person_can_hold(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= FILE_LINES_MAX


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_is_longer_than_a_screen(path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {function.name: body_lines(function) for function in functions if body_lines(function) > FUNCTION_LINES_MAX}
    assert not long


@pytest.mark.parametrize("path", sources("service"), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_public_class_and_module_says_what_it_is(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) or path.stat().st_size == 0, "a module without a docstring"


def test_a_port_has_at_most_four_methods() -> None:
    tree = ast.parse((ROOT / "service/oncegate/ports.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "Protocol" for base in node.bases):
            methods = [
                item.name
                for item in node.body
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.decorator_list
            ]
            assert 1 <= len(methods) <= 4, (node.name, methods)


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.splitlines()]


def test_no_file_names_an_index() -> None:
    for path in tracked():
        if path.suffix in {".txt", ".toml", ".in", ".cfg"} or path.name in {"Dockerfile", "Makefile"}:
            text = path.read_text()
            assert "--index-url" not in text, path
            assert "find-links" not in text, path
            assert "pypi.org" not in text, path


def test_the_drawings_of_the_architecture_are_what_the_tables_say() -> None:
    subprocess.run([sys.executable, "scripts/draw_tables.py", "--check"], cwd=ROOT, check=True)


def test_no_tracked_file_is_one_that_gitignore_names() -> None:
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    assert not subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
