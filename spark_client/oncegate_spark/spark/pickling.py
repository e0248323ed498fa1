"""Checks that Spark's workers and planner will find this package, where it travels with a job."""

import os
from pathlib import Path
from typing import Any

from oncegate_spark.errors import BadOption

_HERE = Path(__file__)


def is_connect(session: Any) -> bool:
    """True for Spark Connect's session, which has no SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check(session: Any, here: Path = _HERE) -> None:
    """Check how the package was shipped.

    Raises BadOption with the line to write instead. `here`: where this package was found.
    """
    wheel = next((folder for folder in here.parents if folder.suffix == ".whl"), None)
    if wheel is not None:
        raise BadOption(
            f"Spark puts no .whl on its workers' path, so they would not find oncegate_spark: cp {wheel.name} "
            "oncegate_spark.zip, and submit with --py-files oncegate_spark.zip"
        )
    python = None if is_connect(session) else str(session.sparkContext.pythonExec)
    if python is not None and os.sep in python and not os.path.isabs(python) and not os.path.exists(python):
        folder = Path(python).parts[0]
        raise BadOption(
            f"Spark plans a Python data source on the driver's machine, with the executors' Python, and {python} is "
            f"not in {os.getcwd()}: unpack the archive here too (mkdir {folder} && tar -xzf {folder}.tar.gz -C "
            f"{folder}), or give PYSPARK_PYTHON an absolute path that every machine has"
        )
