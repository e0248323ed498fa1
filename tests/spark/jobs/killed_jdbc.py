"""Kills examples/jdbc.py, with its driver, between the commit of its first transaction and that of its batch's name.

python -m tests.spark.jobs.killed_jdbc --url URL --dsn DSN --folder FOLDER
"""

import os
import signal
from typing import Any

from pyspark.sql import SparkSession

from examples import jdbc

_write = jdbc.write


def write_and_die(df: Any, batch: Any, dsn: str) -> bool:
    _write(df, batch, dsn)
    jvm = SparkSession.getActiveSession()._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
    return True


if __name__ == "__main__":
    jdbc.write = write_and_die
    jdbc.main()
