"""Appends one batch to the table of examples/delta.py or iceberg.py and dies after the commit, before the call returns.

python -m tests.support.killed_append delta|iceberg FOLDER
"""

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from oncegate_spark import NamedBatch

BATCH = NamedBatch("j@s/0", "OPEN", 1, "j@s", 0)
ROWS = [{"order": "a-1", "cents": 1200}]


def dies_after(call: Any) -> Any:
    def call_and_die(*given: Any, **named: Any) -> None:
        call(*given, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return call_and_die


def main() -> None:
    example = importlib.import_module(f"examples.{sys.argv[1]}")
    table = example.open_table(Path(sys.argv[2]))
    if sys.argv[1] == "delta":
        example.write_deltalake = dies_after(example.write_deltalake)  # type: ignore[attr-defined]
    else:
        SqlCatalog.commit_table = dies_after(SqlCatalog.commit_table)  # type: ignore[method-assign]
    example.write(pa.Table.from_pylist(ROWS, schema=example.SCHEMA), BATCH, table)


if __name__ == "__main__":
    main()
