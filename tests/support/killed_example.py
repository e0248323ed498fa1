"""Runs an example that dies after its sink has written one record, before it reports that.

python -m tests.support.killed_example python_worker|http_idempotency ARGUMENTS
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence

from oncegate_spark.delivery import FolderSink, HttpSink, Record

SINKS: dict[str, type[FolderSink] | type[HttpSink]] = {"python_worker": FolderSink, "http_idempotency": HttpSink}


def main() -> None:
    name = sys.argv.pop(1)
    kind = SINKS[name]
    write = kind.write

    def write_and_die(sink: FolderSink | HttpSink, records: Sequence[Record]) -> None:
        write(sink, records[:1])  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    kind.write = write_and_die  # type: ignore[assignment, method-assign]
    importlib.import_module(f"examples.{name}").main()


if __name__ == "__main__":
    main()
