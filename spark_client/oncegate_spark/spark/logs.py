"""The logger of this package, heard in the processes that Spark starts for us and nobody can configure."""

import logging
import sys

log = logging.getLogger("oncegate_spark")


def be_heard() -> None:
    """In a process without any handler, show our lines on its standard error, which is Spark's."""
    if log.hasHandlers():
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
