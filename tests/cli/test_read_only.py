"""A user who may write only the data folder, as in a container whose root is read-only."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncegate.app import compile_kernels
from oncegate.compilation import COMPILED
from oncegate.runtime.kernel_cache import PACKAGE
from tests.support.gateway_process import GatewayProcess

NOBODY = 65_534
# Reads everything that root may read, so that it finds Python anywhere, and writes only its own files.
AS_NOBODY = (
    *("setpriv", "--reuid", f"{NOBODY}", "--regid", f"{NOBODY}", "--clear-groups"),
    *(part for of in ("inh", "ambient") for part in (f"--{of}-caps", "-all,+dac_read_search")),
    *("--bounding-set", "-all,+dac_read_search"),
)


def can_be_nobody() -> bool:
    """Returns whether this process may become that user: it must be root with rights that a container may have
    removed."""
    return bool(shutil.which("setpriv")) and subprocess.run([*AS_NOBODY, "true"], check=False).returncode == 0


pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(os.geteuid() != 0 or not can_be_nobody(), reason="only root changes its user"),
]


@pytest.fixture(autouse=True)
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Yields a folder that every user may read; pytest's own are for root alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def filled(cache: Path) -> Path:
    """Fills the cache with all kernels of this environment, as numba arranges them below NUMBA_CACHE_DIR."""
    compile_kernels()
    for kernel in COMPILED:
        folder = Path(kernel.py_func.__code__.co_filename).parent
        target = cache / f"{folder.name}_{hashlib.sha1(str(folder).encode()).hexdigest()}"
        target.mkdir(parents=True, exist_ok=True)
        for path in Path(kernel.stats.cache_path).glob("*.nb[ic]"):
            shutil.copy2(path, target)
    return cache


def test_kernels_of_a_folder_that_is_read_only_are_kept_beside_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(filled(tmp_path / "cache")))
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, NOBODY, NOBODY)
    with GatewayProcess(place, runner=AS_NOBODY) as gateway:
        log = gateway.log
    assert "compiling kernels" not in log, "those that were there are used"
    assert "not kept" not in log
    assert list((place / "data.kernels").rglob("*.nbi"))
    assert {path.stat().st_uid for path in (place / "data.kernels").rglob("*")} == {NOBODY}


def test_a_start_that_cannot_keep_kernels_reports_that_in_one_line_with_the_progress_of_compiling(
    open_path: Path,
) -> None:
    sources = shutil.copytree(PACKAGE, open_path / "sources/oncegate", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("data", "witness"):
        (open_path / name).mkdir()
        os.chown(open_path / name, NOBODY, NOBODY)
    runner = (*AS_NOBODY, "env", f"PYTHONPATH={sources.parent}")
    with GatewayProcess(open_path, "--witness", str(open_path / "witness"), runner=runner) as gateway:
        log = gateway.log
    assert len(re.findall("not kept, so each start compiles them: set NUMBA_CACHE_DIR to a folder", log)) == 1
    assert "Traceback" not in log
    assert "compiling kernels, half a minute of one core" in log
    done = re.search(r"compiled (\d+) kernels in", log)
    assert done is not None
    assert int(done[1]) > 20
