"""What may stand in the tree, with git's history and without."""

import re
import subprocess
import sys

from tests.support.tree import ROOT, git, has_history, name_of, sources, tracked

TESTS = sources("tests")


def test_no_file_names_an_index() -> None:
    for path in tracked():
        if path.suffix in {".txt", ".toml", ".in", ".cfg"} or path.name in {"Dockerfile", "Makefile"}:
            text = path.read_text()
            assert "--index-url" not in text, path
            assert "find-links" not in text, path
            assert "pypi.org" not in text, path


def test_the_tables_of_the_pages_are_what_the_code_says() -> None:
    subprocess.run([sys.executable, "-m", "scripts.draw_tables", "--check"], cwd=ROOT, check=True)


def test_no_tracked_file_is_one_that_gitignore_names() -> None:
    """Without history: no compiled kernel lies among the sources, as once was."""
    if has_history():
        assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == []
    assert [path for path in tracked() if path.suffix in {".nbi", ".nbc", ".pyc"}] == []


def test_no_test_imports_from_another_test_file() -> None:
    """Helpers of tests stand in tests/support, and in a folder's own conftest."""
    imports = {path: re.findall(r"^(?:from|import) (tests\.\S*\btest_\w+)", path.read_text(), re.M) for path in TESTS}
    assert not {name_of(path): found for path, found in imports.items() if found}
