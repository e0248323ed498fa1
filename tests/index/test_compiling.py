"""What numba keeps between processes is taken for stale when any file has changed that is compiled into it."""

import ast
import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import oncegate
from oncegate.index.compiling import SOURCES, digest_of

PACKAGE = Path(inspect.getfile(oncegate)).parent
# Shows what `find` finds, and whether the machine code came out of the cache.
SHOWS = """
import numpy as np
from oncegate.index.kernels import COMPILED
counts = np.zeros(4, np.int64)
COMPILED.demand(np.full((3, 2), 1, np.uint64), np.uint64(255), counts)
print(counts.tolist(), sum(COMPILED.demand.stats.cache_hits.values()))
"""


def imported(name: str) -> set[str]:
    """The package's own modules that a module imports from."""
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    return {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("oncegate.")
    }


def test_every_file_that_kernels_are_made_of_is_named() -> None:
    todo, seen = ["oncegate.index.kernels", "oncegate.index.dropping", "oncegate.index.spreading"], set()
    while todo:
        seen.add(name := todo.pop())
        todo += imported(name) - seen
    assert seen == set(SOURCES)


def test_a_digest_differs_wherever_the_text_does() -> None:
    texts = [("ab", "c"), ("a", "bc"), ("ab", "d"), ("abc",), ("ab", "c", "")]
    assert len({digest_of(text) for text in texts}) == len(texts)


def run(folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", SHOWS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_an_edited_helper_of_another_file_is_compiled_anew(tmp_path: Path) -> None:
    """The file of the kernel itself is the same, byte for byte and by its time."""
    for name in ("core", "index"):
        folder = tmp_path / "oncegate" / name
        folder.mkdir(parents=True)
        for source in (PACKAGE / name).glob("*.py"):
            (folder / source.name).write_bytes(source.read_bytes())
    (tmp_path / "oncegate" / "__init__.py").write_bytes((PACKAGE / "__init__.py").read_bytes())
    assert [run(tmp_path), run(tmp_path)] == ["[0, 3, 0, 0] 0", "[0, 3, 0, 0] 1"]
    helper = tmp_path / "oncegate" / "index" / "probing.py"
    old, new = "np.int64(tag & np.uint64(segments - 1))", "np.int64(tag + np.uint64(1) & np.uint64(segments - 1))"
    assert helper.read_text().count(old) == 1
    helper.write_text(helper.read_text().replace(old, new))
    assert run(tmp_path) == "[0, 0, 3, 0] 0"
