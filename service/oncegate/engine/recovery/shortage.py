"""Tells a ledger that cannot be opened for now from one that cannot be opened at all."""

import errno

from oncegate.core.errors import LedgerFull

# Descriptors, memory, threads, room: others give them back. What else the system says is for a person to mend.
_SHORT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})
# What CPython says where the system gives no thread; it has no class of its own.
_NO_THREAD = "can't start new thread"


def is_shortage(error: BaseException | None) -> bool:
    """Tells whether an error, or one that caused it, is want of descriptors, memory, threads or room on the disk."""
    while error is not None:
        if isinstance(error, LedgerFull | MemoryError):
            return True
        if isinstance(error, OSError) and error.errno in _SHORT:
            return True
        if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
            return True
        error = error.__cause__
    return False
