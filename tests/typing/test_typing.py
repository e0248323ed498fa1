"""Both packages carry their types: right programs pass mypy --strict, wrong ones get the error and its line."""

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "programs"
RIGHT = ["sync_client.py", "async_client.py", "local_gateway.py"]
WRONG = ["wrong_sync.py", "wrong_async.py"]
MARK = re.compile(r"# wrong: ([a-z-]+)$")
FOUND = re.compile(r"^(.+?):(\d+): error: .*\[([a-z-]+)\]$")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[int, str]]]:
    """Returns mypy's errors, (line, code), for each program, checked strictly against the installed packages."""
    options = ["--strict", "--no-error-summary", "--follow-imports", "silent", "--hide-error-context"]
    cache = tmp_path_factory.mktemp("mypy")
    config = cache / "mypy.ini"
    config.write_text("[mypy]\n[mypy-pyarrow.*]\nignore_missing_imports = True\n")
    command = [sys.executable, "-m", "mypy", *options, "--config-file", str(config), "--cache-dir", str(cache)]
    programs = [str(PROGRAMS / name) for name in RIGHT + WRONG]
    done = subprocess.run([*command, *programs], cwd=cache, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    said: dict[str, set[tuple[int, str]]] = {name: set() for name in RIGHT + WRONG}
    for line in done.stdout.splitlines():
        match = FOUND.match(line)
        assert match or ": note: " in line, line
        if match:
            said[Path(match[1]).name].add((int(match[2]), match[3]))
    return said


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes(name: str, told: dict[str, set[tuple[int, str]]]) -> None:
    assert told[name] == set()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_line_is_reported_with_its_reason(name: str, told: dict[str, set[tuple[int, str]]]) -> None:
    lines = enumerate((PROGRAMS / name).read_text().splitlines(), 1)
    expected = {(number, mark[1]) for number, line in lines if (mark := MARK.search(line))}
    assert expected
    assert told[name] == expected


@pytest.mark.parametrize("package", ["oncegate", "oncegate_spark"])
def test_each_package_is_marked_as_typed(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()
