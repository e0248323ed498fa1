"""How the serving process keeps its memory: settings of the runtime below, worth a third of a large request."""

import ctypes
import gc

# malloc's parameters, by their numbers in <malloc.h>.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# The largest that glibc takes: bodies and their copies come out of memory that was used before, so the system need
# not fetch and clear new pages for each. What is free beyond the other bound goes back.
_MMAP_BYTES = 32 << 20
_KEPT_BYTES = 128 << 20
# Counting frees most of what requests leave behind; connections and errors leave cycles. A collection of 5,000 objects
# takes some 6 ms, one of 50,000 kept every request waiting for 55 ms, once a second under overload. One of everything
# takes 100 ms and more, so it comes after 20 million objects.
_THRESHOLDS = (5_000, 10, 400)


def keep_freed_memory() -> None:
    """Let freed memory be used again instead of handing it back at once; no effect where malloc is not glibc's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)


def collect_seldom() -> None:
    """Collect after more than a request's objects; what a start makes stays, and is not gone through each time."""
    gc.set_threshold(*_THRESHOLDS)


def leave_out_what_is_loaded() -> None:
    """Leave out of the garbage collections what was loaded so far."""
    gc.collect()
    gc.freeze()
