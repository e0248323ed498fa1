"""Checks that Spark's workers and planner can import this package if it is shipped with a job."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oncegate_spark.errors import BadOption

_HERE = Path(__file__)
_MANAGER = "org.apache.spark.sql.execution.datasources.DataSourceManager"
# Modules that a worker imports, looked up without importing them; any other status means that this Python did not run.
_LACKING = 3
_LOOKS = f"""
import importlib.util, sys
names = [name for name in ("oncegate_spark", "pyarrow") if importlib.util.find_spec(name) is None]
print(" and no ".join(names))
sys.exit({_LACKING} if names else 0)
"""
# Longer than Python takes to start on a busy machine.
_LOOKING_S = 60


def is_connect(session: Any) -> bool:
    """True for Spark Connect's session, which has no SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


@contextmanager
def unwarned(session: Any) -> Iterator[None]:
    """Silences a classic session's warning that one source replaces another: both are this package's."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        yield
        return
    log4j = jvm.org.apache.logging.log4j
    before = log4j.LogManager.getLogger(_MANAGER).getLevel()
    log4j.core.config.Configurator.setLevel(_MANAGER, log4j.Level.ERROR)
    try:
        yield
    finally:
        log4j.core.config.Configurator.setLevel(_MANAGER, before)


def check(session: Any, here: Path = _HERE) -> None:
    """Checks how the package was shipped. Raises BadOption with the command to use instead. `here`: location of this
    package.
    """
    wheel = next((folder for folder in here.parents if folder.suffix == ".whl"), None)
    if wheel is not None:
        raise BadOption(
            f"Spark does not add a .whl to its workers' path, so they cannot import oncegate_spark: cp {wheel.name} "
            "oncegate_spark.zip, and submit with --py-files oncegate_spark.zip"
        )
    python = None if is_connect(session) else str(session.sparkContext.pythonExec)
    if python is not None and os.sep in python and not os.path.isabs(python) and not os.path.exists(python):
        folder = Path(python).parts[0]
        raise BadOption(
            f"Spark plans a Python data source on the driver's machine with the executors' Python, and {python} is "
            f"not in {os.getcwd()}: unpack the archive here too (mkdir {folder} && tar -xzf {folder}.tar.gz -C "
            f"{folder}), or set PYSPARK_PYTHON to an absolute path that exists on every machine"
        )
    check_workers(session, here)


def check_workers(session: Any, here: Path = _HERE) -> None:
    """Checks that the Python of a session's workers has this package, before a plan that needs it.

    Raises BadOption with the command to run. Checks nothing through Spark Connect. `here`: location of this package.
    """
    if not is_connect(session) and not any(folder.suffix in {".zip", ".egg"} for folder in here.parents):
        _check_python(str(session.sparkContext.pythonExec))


def _check_python(python: str) -> None:
    """Checks the workers' Python, since Spark's own error is a hundred lines of Java.

    Spark 4.3 runs PYSPARK_PYTHON, which spark-submit sets from spark.pyspark.python, else python3 of PATH; not the
    Python of a driver that was started by its path. Checks nothing if that Python cannot be run here.
    """
    executable = shutil.which(python)
    if executable is None or os.path.abspath(executable) == os.path.abspath(sys.executable):
        return
    try:
        done = subprocess.run(
            [executable, "-c", _LOOKS],
            capture_output=True,
            text=True,
            timeout=_LOOKING_S,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    if done.returncode == _LACKING:
        chosen = "PYSPARK_PYTHON" if os.environ.get("PYSPARK_PYTHON") else "python3 of PATH"
        raise BadOption(
            f"Spark's workers run {executable} ({chosen}), which has no {done.stdout.strip()}: "
            f"export PYSPARK_PYTHON={sys.executable}, before the session is made"
        )
