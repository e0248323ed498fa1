"""What a start does without."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    """What set-up's last step says, in a process of its own."""
    code = "from oncegate.app import compile_kernels; compile_kernels()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
