"""Sets up the serving process: file descriptors, thread switching, memory, and a bounded shutdown time.

The limit of descriptors is raised as far as the system allows and shared out before anything is opened. Requests beyond
a share are refused by name, so that no append, opening or probe ever meets the limit itself.
"""

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

# Open files of a gateway without namespaces and connections (about twenty), and files that are being read.
AT_REST = 32
# Its lock, segment and witness, a file that is written beside them, and four runs of old ids that are mapped.
PER_NAMESPACE = 8
# Connections to the port of probes, where there is one, and the port itself.
PROBES = 9
# One refused connection for this many served ones: it holds a descriptor until its refusal is sent.
REFUSED = 8
# Connections that the system has accepted and the loop has not: all may arrive at once. uvicorn's own default.
BACKLOG_MAX = 2_048
# Share of the limit for files of topics that are being appended to (`ledgers.log`), and for the backlog.
_SHARE = 8


@dataclass(frozen=True)
class Budget:
    """The maximum numbers of connections and namespaces. `backlog`: connections that are not accepted yet."""

    connections: int
    namespaces: int
    backlog: int


def raise_limit() -> int:
    """Raises the process's open-file limit to its hard limit, and returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def shared_out(limit: int, connections: int, namespaces: int, kept: int = 0) -> Budget:
    """Divides the open-file limit between connections and namespaces: as many as requested, or as many as fit.

    `kept`: descriptors that are reserved for neither.
    """
    backlog = min(BACKLOG_MAX, limit // _SHARE)
    left = limit - AT_REST - kept - limit // _SHARE - backlog
    connections = max(1, min(connections, left // 2 * REFUSED // (REFUSED + 1)))
    rest = left - connections - -(-connections // REFUSED)
    return Budget(connections, max(1, min(namespaces, rest // PER_NAMESPACE)), backlog)


def needed(namespaces: int, kept: int = 0) -> int:
    """Returns the lowest open-file limit that fits the namespaces and as many descriptors for connections."""
    return -(-(2 * namespaces * PER_NAMESPACE + AT_REST + kept) * _SHARE // (_SHARE - 2))


# A waiting thread requests the interpreter after this long; Python's default is five times as much. The loop requests
# it after each system call, so with the default a thread that decodes a body would stall it for 200 ms.
SWITCH_INTERVAL_S = 0.001


def share_often() -> None:
    """Sets the interpreter's switch interval to a millisecond, so that no request stalls the event loop."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)


# malloc's parameters, by their numbers in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# The largest value of glibc: bodies and their copies reuse freed memory, so the kernel need not clear new pages for
# each. Free memory beyond the other bound is returned to the system.
_MMAP_BYTES = 32 << 20
_KEPT_BYTES = 128 << 20
# Counting frees most of what requests leave behind; connections and errors leave cycles. A collection of 5,000 objects
# takes some 6 ms, one of 50,000 kept every request waiting for 55 ms, once a second under overload. One of everything
# takes 100 ms and more, so it comes after 20 million objects.
_THRESHOLDS = (5_000, 10, 400)


def keep_freed_memory() -> None:
    """Lets malloc reuse freed memory instead of returning it at once; no effect unless malloc is glibc's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def collect_seldom() -> None:
    """Runs the garbage collector less often than after each request."""
    gc.set_threshold(*_THRESHOLDS)


def leave_out_what_is_loaded() -> None:
    """Excludes all objects loaded so far from garbage collection."""
    gc.collect()
    gc.freeze()


EXIT_STATUS = 1


def end_within(shutdown_ms: int, log: Callable[[str], object]) -> None:
    """Kills the process, with a log line and status 1, unless it exits within `shutdown_ms`.

    From a thread of its own, for the event loop may be what hangs.
    """
    timer = threading.Timer(shutdown_ms / 1000, _end, (shutdown_ms, log))
    timer.daemon = True
    timer.start()


def _end(shutdown_ms: int, log: Callable[[str], object]) -> None:
    try:
        log(f"not closed {shutdown_ms} ms after the signal to stop: exiting now; every acknowledged write is on disk")
    finally:
        os._exit(EXIT_STATUS)
