"""Makes machine code of loops, and keeps it for the next process where numba finds a folder that can be written.

numba looks in NUMBA_CACHE_DIR, beside the file of the loop, and in the user's own cache. In a container whose root is
read-only none of them can be written: `runtime/kernel_cache.py` names one more, and without it nothing is kept.
"""

from collections.abc import Callable
from typing import Any

from numba import config, njit

# Every loop made machine code so far, or that will be with its first call.
COMPILED: list[Any] = []


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the loop as machine code, made at its first call; other threads run beside it."""
    try:
        function = njit(nogil=True, cache=True)(loop)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        function = njit(nogil=True)(loop)
    COMPILED.append(function)
    return function  # type: ignore[no-any-return]


def is_kept(function: Any) -> bool:
    """Tells whether the machine code of a loop outlives this process."""
    return not config.DISABLE_JIT and function.stats.cache_path is not None
