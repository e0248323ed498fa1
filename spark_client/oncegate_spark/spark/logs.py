"""Logger of this package, with a handler for processes that Spark starts and users cannot configure."""

import logging
import sys

log = logging.getLogger("oncegate_spark")


def be_heard() -> None:
    """Logs to standard error, which is Spark's, in a process without log handlers."""
    if log.hasHandlers():
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
