"""Modules that a start does not import, and a verb's exit after a signal."""

import importlib.util
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncegate.__main__ import main
from oncegate.cli import VERBS
from tests.support.gateway_process import GatewayProcess


@pytest.mark.server
@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed: nothing to leave out")
def test_a_gateway_starts_without_pandas_where_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with GatewayProcess(tmp_path) as gateway:
        imported = gateway.log
    assert "pyarrow.lib" in imported
    assert "pandas.core" not in imported


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP])
def number(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[signal.Signals]:
    """Restores a signal's default action, as in a new process, and removes import hooks afterwards."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_verb_that_a_signal_ends_takes_back_what_it_has_half_made(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verb(**_: object) -> None:
        assert signal.getsignal(number) is not signal.SIG_DFL, "it would end this process, and its tests"
        with tempfile.TemporaryDirectory(dir=tmp_path):
            signal.raise_signal(number)

    monkeypatch.setattr("oncegate.__main__.app", verb)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, list(tmp_path.iterdir())) == (128 + number, [])


def test_a_verb_below_nohup_outlives_its_terminal(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(number, signal.SIG_IGN)
    monkeypatch.setattr("oncegate.__main__.app", lambda **_: signal.raise_signal(number))
    main()


@pytest.mark.slow
def test_two_processes_compile_the_kernels_of_a_new_environment_and_the_next_one_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = re.search(r"compiled (\d+) kernels", compiling())
    assert done is not None
    kept = len(list(tmp_path.rglob("*.nbi")))
    assert kept // 4 < int(done[1]) < kept * 3 // 4, "the rest was compiled beside"
    assert compiling() == ""


def compiling() -> str:
    """Returns the output of the last set-up step, run in a new process."""
    code = "from oncegate.app import compile_kernels; compile_kernels()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


# Libraries and packages whose import takes more processor time than a verb may take to start.
HEAVY = ("cryptography", "numba", "numpy", "oncegate.ledgers", "oncegate.settings", "pyarrow", "pydantic", "structlog")


def imported_by(program: str) -> set[str]:
    """Returns the modules that a new process has imported after `program`."""
    shown = f"{program}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    return set(subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stderr.split())


def test_the_version_is_shown_without_the_module_of_any_verb() -> None:
    imported = imported_by("from oncegate.cli import app\napp(['--version'], standalone_mode=False)")
    assert "oncegate.cli" in imported
    assert {name for name in imported if name.startswith("oncegate.cli.")} == set()


def test_a_verb_starts_with_its_own_module_and_without_ledgers_settings_and_arrays() -> None:
    modules = sorted({f"oncegate.cli.{target.partition(':')[0]}" for target in VERBS.values()})
    imported = imported_by(f"import {', '.join(modules)}")
    assert set(modules) <= imported
    assert imported.isdisjoint(HEAVY)


def test_help_of_a_verb_imports_no_other_verb() -> None:
    imported = imported_by("from oncegate.cli import app\napp(['explain', '--help'], standalone_mode=False)")
    verbs = {f"oncegate.cli.{target.partition(':')[0]}" for target in VERBS.values()}
    assert imported & verbs == {"oncegate.cli.explain"}
