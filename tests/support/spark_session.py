"""Starts the one Spark of a test process; a second session would share its JVM, settings and log."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def set_environment() -> None:
    """Sets the environment of the JVM's Python processes: our sinks and sources, and our interpreter."""
    if str(ROOT) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # A JVM that lives for minutes does not need the second compiler.
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """Redirects the standard error of processes started in the block to a file: the JVM's and its Python workers'."""
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def start(log: Path, warehouse: Path) -> Any:
    """Returns a session of two threads whose tasks have four attempts."""
    from pyspark.sql import SparkSession

    set_environment()
    with stderr_into(log):
        return (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.adaptive.enabled", "false")
            .config("spark.sql.streaming.stopTimeout", "30s")
            .config("spark.sql.warehouse.dir", str(warehouse))
            .config("spark.python.task.killTimeout", "30s")  # lifetime of a zombie task
            .getOrCreate()
        )
