"""Ends the process when an orderly end takes longer than it may: what was acknowledged is on disk by then."""

import os
import threading
from collections.abc import Callable

EXIT_STATUS = 1


def end_within(shutdown_ms: int, log: Callable[[str], object]) -> None:
    """Ends this process, with a log line and status 1, unless it has ended by itself `shutdown_ms` from now.

    From a thread of its own, for the event loop may be what hangs.
    """
    timer = threading.Timer(shutdown_ms / 1000, _end, (shutdown_ms, log))
    timer.daemon = True
    timer.start()


def _end(shutdown_ms: int, log: Callable[[str], object]) -> None:
    try:
        log(f"not closed {shutdown_ms} ms after it was told to stop: ending now; what was acknowledged is on disk")
    finally:
        os._exit(EXIT_STATUS)
