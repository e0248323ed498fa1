"""Stores notes of pending acks beside a checkpoint."""

import logging
from pathlib import Path

from oncegate_spark.disk import replace_file

log = logging.getLogger("oncegate_spark")


def keep(file: Path, text: str, what: str = "the pending acks") -> None:
    """Replaces a file durably. `what` names its contents in the log.

    The rows that it covers are already written, so a failure is only logged: unacked ids are kept for longer.
    """
    try:
        replace_file(file, text.encode())
    except OSError as error:
        log.warning("cannot store %s in %s: %s", what, file, error)
