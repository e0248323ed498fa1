"""Starts the one Spark of a test process; a second one would get the JVM, the settings and the log of the first."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def set_environment() -> None:
    """For the JVM's Python processes: the sinks and sources of these tests, and our own interpreter."""
    if str(ROOT) not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # For every JVM that these tests start: one that lives for minutes has no use for the second compiler.
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


@contextmanager
def stderr_into(path: Path) -> Iterator[None]:
    """What is started inside writes its standard error there: the JVM, and by it every Python process of Spark."""
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def start(log: Path, warehouse: Path) -> Any:
    """Returns a session of two threads whose tasks are tried four times."""
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
            .config("spark.python.task.killTimeout", "30s")  # how long a zombie lives
            .getOrCreate()
        )
