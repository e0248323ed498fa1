"""Files that the tree may contain, with and without git's history."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import LONG
from tests.support import tree
from tests.support.tree import ROOT, git, has_history, name_of, sources, tracked

TESTS = sources("tests")


def test_no_file_names_an_index() -> None:
    for path in tracked():
        if path.suffix in {".txt", ".toml", ".in", ".cfg"} or path.name in {"Dockerfile", "Makefile"}:
            text = path.read_text()
            assert "--index-url" not in text, path
            assert "find-links" not in text, path
            assert "pypi.org" not in text, path


def test_the_tables_of_the_pages_match_the_code() -> None:
    subprocess.run([sys.executable, "-m", "scripts.draw_tables", "--check"], cwd=ROOT, check=True)


def test_no_tracked_file_is_one_that_gitignore_names() -> None:
    """Covers a tree without history too: compiled kernels were once committed among the sources."""
    if has_history():
        assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == []
    assert [path for path in tracked() if path.suffix in {".nbi", ".nbc", ".pyc"}] == []


def test_no_test_imports_from_another_test_file() -> None:
    """Shared helpers of tests belong in tests/support or in a folder's conftest."""
    imports = {path: re.findall(r"^(?:from|import) (tests\.\S*\btest_\w+)", path.read_text(), re.M) for path in TESTS}
    assert not {name_of(path): found for path, found in imports.items() if found}


@pytest.mark.parametrize("owner", [0, 65_534])
def test_the_files_of_a_tree_are_known_without_history_and_in_a_clone_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: int
) -> None:
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    for name in ("kept.py", ".venv/made.py", "out/made.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert (has_history(), tracked()) == (False, [tmp_path / "kept.py"])
    if git("--version") is None or os.geteuid() != 0:
        pytest.skip("git, and root to give a clone away")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "kept.py"], cwd=tmp_path, check=True)
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, owner, owner)
    assert (has_history(), tracked()) == (True, [tmp_path / "kept.py"])


def test_each_folder_and_file_of_the_long_tests_is_there() -> None:
    assert [path for path in LONG if not (ROOT / path).exists()] == []
