"""Kills examples/delta.py or iceberg.py, with its driver, after its first batch is in the table and before it is named.

python -m tests.spark.jobs.killed_table delta|iceberg --url URL --folder FOLDER
"""

import importlib
import os
import signal
import sys
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    example = importlib.import_module(f"examples.{sys.argv.pop(1)}")
    write = example.write

    def write_and_die(rows: Any, batch: Any, table: Any) -> None:
        write(rows, batch, table)
        jvm = SparkSession.getActiveSession()._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        os.kill(jvm, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    example.write = write_and_die  # type: ignore[attr-defined]
    example.main()


if __name__ == "__main__":
    main()
