"""Keeps beside a checkpoint what is to be acked once Spark cannot run a batch again."""

import logging
import os
from pathlib import Path

log = logging.getLogger("oncegate_spark")


def keep(file: Path, text: str, what: str = "what is to be acked") -> None:
    """Replace a file by this text. `what` names it in the log.

    What it notes is written already, so a failure here is only logged: what is not acked is kept for longer.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.{os.getpid()}.new")
        new.write_text(text, "utf-8")
        new.replace(file)
    except OSError as error:
        log.warning("%s cannot be kept in %s: %s", what, file, error)
