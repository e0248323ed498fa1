"""Keeps beside a checkpoint what is to be acked once Spark cannot run a batch again."""

import logging
from pathlib import Path

from oncegate_spark.disk import replace_file

log = logging.getLogger("oncegate_spark")


def keep(file: Path, text: str, what: str = "what is to be acked") -> None:
    """Replace a file by this text, durably. `what` names it in the log.

    What it notes is written already, so a failure here is only logged: what is not acked is kept for longer.
    """
    try:
        replace_file(file, text.encode())
    except OSError as error:
        log.warning("%s cannot be kept in %s: %s", what, file, error)
