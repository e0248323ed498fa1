"""Distinguishes temporary shortages of resources from errors that a person must fix."""

import errno

from oncegate.core.errors import LedgerFull

# Shortages of descriptors, memory, threads or disk space, which pass by themselves. Other errors need a person.
_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})
# CPython's message if the system provides no thread; there is no exception class for it.
_NO_THREAD = "can't start new thread"


def is_shortage(error: BaseException | None) -> bool:
    """Returns whether an error or one of its causes is a shortage of descriptors, memory, threads or disk space."""
    while error is not None:
        if isinstance(error, LedgerFull | MemoryError):
            return True
        if isinstance(error, OSError) and error.errno in _SHORT:
            return True
        if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
            return True
        error = error.__cause__
    return False
