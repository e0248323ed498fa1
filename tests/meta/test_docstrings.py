"""Modules and public classes have a docstring; the first sentence of each docstring can be read alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.tree import name_of, sources

WORDS_MIN = 3
DOCUMENTED = sources("service", "spark_client", "bench", "demo")

# A first sentence that begins with what depends on a noun elsewhere: "Which of them."; "As before."; "`name`: bytes."
RIDDLE = re.compile(
    r"((which|whose|whom|who|of|as before|as above|as the port says|some more|see above)\b|`[^`]+`:)", re.IGNORECASE
)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Documented]]:
    """Yields the node itself and its public classes and functions; names nested in a function are not public."""
    yield prefix or "the module", node
    for item in node.body:
        if isinstance(item, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_"):
            name = f"{prefix}.{item.name}".lstrip(".")
            if isinstance(item, ast.ClassDef):
                yield from public(item, name)
            elif not repeats(item):
                yield name, item


def repeats(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns whether a function is a setter, an overload's signature or a marked override, which are documented
    elsewhere."""
    marks = {ast.unparse(mark).rpartition(".")[2] for mark in function.decorator_list}
    return bool(marks & {"setter", "overload", "override"})


def first_sentence(text: str) -> str:
    """Returns the text up to the first full stop at a word's end, or up to an empty line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0]


def riddles(text: str) -> bool:
    """Returns whether a first sentence is too short for subject, verb and object, or depends on a noun elsewhere."""
    sentence = first_sentence(text)
    return len(sentence.split()) < WORDS_MIN or bool(RIDDLE.match(sentence))


def docstrings(path: Path) -> list[tuple[str, bool, str]]:
    """Returns (name, whether it is a function, docstring or nothing) of everything public in a file."""
    tree = ast.parse(path.read_text())
    if not tree.body:
        return []
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return [(name, isinstance(node, functions), ast.get_docstring(node) or "") for name, node in public(tree)]


@pytest.mark.parametrize("path", DOCUMENTED, ids=name_of)
def test_modules_and_public_classes_have_a_docstring(path: Path) -> None:
    assert not [name for name, is_function, text in docstrings(path) if not text and not is_function]


@pytest.mark.parametrize("path", DOCUMENTED, ids=name_of)
def test_a_first_sentence_can_be_read_alone(path: Path) -> None:
    assert not [(name, first_sentence(text)) for name, _, text in docstrings(path) if text and riddles(text)]


@pytest.mark.parametrize("text", ["Some more.", "Its entries.", "As before; nothing else.", "Which of them."])
def test_a_riddle_is_found(text: str) -> None:
    assert riddles(text)


def test_a_sentence_is_none() -> None:
    assert not riddles("Appends groups of changes to the ledger, one append at a time.")
