"""The way of a claim through the service's files has a length that is known and does not grow by accident."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Calls and files, at most. To raise one, say in the commit which promise the added calls keep.
WAYS = {"JSON": (393, 86), "packed": (414, 84)}


@pytest.fixture(scope="module")
def printed() -> dict[str, tuple[int, int]]:
    """Returns the calls and the files of each claim, as counted in a process of its own."""
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
