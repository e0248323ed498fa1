"""numba's cache is stale when any file that is compiled into it has changed."""

import ast
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import oncegate
from oncegate.index.table.jit import SOURCES, digest_of

PACKAGE = Path(inspect.getfile(oncegate)).parent
# Prints the result of `find`, and whether the machine code came from the cache.
SHOWS = """
import numpy as np
from oncegate.index.table.kernels import COMPILED
counts = np.zeros(4, np.int64)
COMPILED.demand(np.full((3, 2), 1, np.uint64), np.uint64(255), counts)
print(counts.tolist(), sum(COMPILED.demand.stats.cache_hits.values()))
"""

# Makes requests after everything was compiled, to find kernels with arguments of other types.
SERVES = """
import numpy as np
from oncegate.core.entries.kinds import Claimed, Completed
from tests.support.index.claim_index import ClaimIndex
from oncegate.index.shard import warm_up
from oncegate.hashing.ids import Fingerprinter
from oncegate.index.table.kernels import COMPILED
from oncegate.index.claims.decide import claim_many
warm_up()
before = [len(kernel.signatures) for kernel in COMPILED]
index, prints, n = ClaimIndex(), Fingerprinter(bytes(32)), 0
def claim(ids):
    global n
    n += 1
    return Claimed(n.to_bytes(16), n.to_bytes(16), 1, bytes(16), 1_000, 0, ids.tobytes(), b"")
for count in (1, 1_000):
    ids = prints.of_packed(bytes(range(16)) * count if count == 1 else np.arange(2 * count, dtype=np.uint64).tobytes())
    asked = index.decide(bytes(16), 1, bytes(16), ids, 0)
    index.make_room(count, 0)
    index.settle(index.apply(1, claim(asked.fresh), 0))
    told = claim_many(index.store, 2, [claim(ids), claim(prints.of_packed(bytes(range(count % 7, 16 + count % 7))))], 0)
    told.settle()
    for entry in told.entries:
        index.settle(index.apply(5, Completed(entry.claim, 1), 0))
    claim_many(index.store, 6, [claim(prints.of_packed(bytes(range(40, 56))))], 0).undo()
index.sweep(1)
print([kernel.__name__ for kernel, some in zip(COMPILED, before) if len(kernel.signatures) > some])
"""


def test_no_request_waits_for_the_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", SERVES], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def imported(name: str) -> set[str]:
    """Returns the package's own modules that a module imports from."""
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    return {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("oncegate.")
    }


def test_every_file_that_kernels_are_made_of_is_named() -> None:
    todo, seen = [f"oncegate.index.table.{name}" for name in ("kernels", "delete", "bulk_insert")], set()
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


def test_an_edited_helper_of_another_file_is_recompiled(tmp_path: Path) -> None:
    """The file of the kernel itself is unchanged, including its time."""
    for name in ("core", "index"):
        shutil.copytree(PACKAGE / name, tmp_path / "oncegate" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "arraytypes.py", "compilation.py"):
        shutil.copy2(PACKAGE / name, tmp_path / "oncegate" / name)
    assert [run(tmp_path), run(tmp_path)] == ["[0, 3, 0, 0] 0", "[0, 3, 0, 0] 1"]
    helper = tmp_path / "oncegate" / "index" / "table" / "probe.py"
    old, new = "np.int64(tag & np.uint64(segments - 1))", "np.int64(tag + np.uint64(1) & np.uint64(segments - 1))"
    assert helper.read_text().count(old) == 1
    helper.write_text(helper.read_text().replace(old, new))
    # Like a cache that names classes of the previous version: it cannot be read to its end.
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-20])
    assert run(tmp_path) == "[0, 0, 3, 0] 0"
