"""Compiles loops to machine code, and caches it for later processes if numba finds a writable folder.

numba tries NUMBA_CACHE_DIR, the folder of the loop's file, and the user's own cache. A container with a read-only root
has none of them: `runtime/kernel_cache.py` adds one more, without which nothing is cached.
"""

from collections.abc import Callable
from typing import Any

from numba import config, njit

# Every loop that is compiled, or will be by its first call.
COMPILED: list[Any] = []


def compiled(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the loop as machine code, compiled at its first call. It releases the GIL."""
    try:
        function = njit(nogil=True, cache=True)(loop)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        function = njit(nogil=True)(loop)
    COMPILED.append(function)
    return function  # type: ignore[no-any-return]


def is_kept(function: Any) -> bool:
    """Returns whether the machine code of a loop is cached for later processes."""
    return not config.DISABLE_JIT and function.stats.cache_path is not None
