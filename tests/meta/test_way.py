"""A claim's path through the service's files has a known length and does not grow by accident."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.structure import forwarders, is_forwarder

ROOT = Path(__file__).parents[2]
# Maximum of calls and files; one more turn of the loop adds a few calls. To raise one, name in the commit the promise
# that the added calls keep.
WAYS = {"JSON": (240, 61), "packed": (260, 59)}

# Functions of the service that only pass on their parameters. To raise the number, give the reason in the commit.
FORWARDERS = 76


@pytest.fixture(scope="module")
def printed() -> dict[str, tuple[int, int]]:
    """Returns the calls and the files of each claim, as counted in a new process."""
    script = [sys.executable, "scripts/structure.py", "--walk"]
    text = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout
    lines = [line.split() for line in text.splitlines() if line.startswith("a ")]
    return {words[1]: (int(words[3]), int(words[5])) for words in lines}


@pytest.mark.parametrize("kind", WAYS)
def test_the_way_of_a_claim_is_no_longer_than_it_was(kind: str, printed: dict[str, tuple[int, int]]) -> None:
    calls, files = printed[kind]
    assert (calls > 100, files > 10) == (True, True), "nothing was counted"
    assert calls <= WAYS[kind][0], f"{calls} calls: `python scripts/structure.py --walk` lists their files"
    assert files <= WAYS[kind][1], f"{files} files: `python scripts/structure.py --walk` lists them"


def test_no_more_functions_only_forward_than_did() -> None:
    found = forwarders("service")
    assert len(found) <= FORWARDERS, found


@pytest.mark.parametrize(
    ("body", "forwards"),
    [
        ("return do(self.a.b, x, *more, y=y)", True),
        ('"""Does it."""; assert x; await self.one.do(x)', True),
        ("return self.one.do()", True),
        ("return do(x, 1)", False),
        ("return do(f(x))", False),
        ("return do(other)", False),
        ("return do(x) + 1", False),
        ("self.x = x; return do(x)", False),
        ("return len(self.x)", False),
        ("return Thing(x)", False),
        ("pass", False),
    ],
)
def test_a_function_that_is_one_call_with_its_own_arguments_is_a_forwarder(body: str, forwards: bool) -> None:
    source = "async def f(self, x, *more, y):\n    " + "\n    ".join(body.split("; "))
    function = ast.parse(source).body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    assert is_forwarder(function) is forwards


def test_the_modules_for_making_the_document_are_not_imported_to_serve() -> None:
    script = (
        "import sys, oncegate.app; print([name for name in sys.modules if '.openapi.' in name and 'oncegate' in name])"
    )
    modules = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert modules.stdout == "[]\n"
